#include "services/cache/page_clearing.h"

#include "gtest/gtest.h"

namespace folio::cache {
namespace {

TEST(PageClearing, ASecondTenantMakesItNecessaryForGood) {
  PageClearing clearing(ClearPages::kBetweenTenants);
  for (const char* tenant : {"alice", "alice"}) {
    clearing.OnPagesFor(tenant);
    EXPECT_FALSE(clearing.needed());
  }
  for (const char* tenant : {"", "alice"}) {
    clearing.OnPagesFor(tenant);
    EXPECT_TRUE(clearing.needed());
  }
}

TEST(PageClearing, SequencesWithoutATenantAreOfOne) {
  PageClearing clearing(ClearPages::kBetweenTenants);
  clearing.OnPagesFor("");
  clearing.OnPagesFor("");
  EXPECT_FALSE(clearing.needed());
  clearing.OnPagesFor("alice");
  EXPECT_TRUE(clearing.needed());
}

TEST(PageClearing, OtherRulesAskForNoTenant) {
  EXPECT_TRUE(PageClearing(ClearPages::kAlways).needed());
  PageClearing never(ClearPages::kNever);
  never.OnPagesFor("alice");
  never.OnPagesFor("bob");
  EXPECT_FALSE(never.needed());
}

TEST(PageClearing, MemoryThatOthersHaveUsedIsClearedFromTheStart) {
  EXPECT_EQ(ForUsedMemory(ClearPages::kBetweenTenants), ClearPages::kAlways);
  EXPECT_EQ(ForUsedMemory(ClearPages::kAlways), ClearPages::kAlways);
  EXPECT_EQ(ForUsedMemory(ClearPages::kNever), ClearPages::kNever);
}

}  // namespace
}  // namespace folio::cache
