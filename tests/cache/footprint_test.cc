#include "services/base/footprint.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace folio::cache {
namespace {

TEST(Footprint, PromptHoldsAllItsPagesAndOneAhead) {
  const Footprint full(16, 0);
  EXPECT_EQ(full.ForPrompt(1, 100), 2U);
  EXPECT_EQ(full.ForPrompt(16, 100), 2U);
  EXPECT_EQ(full.ForPrompt(17, 100), 3U);
  // A layer gets only pages that some token can fill.
  EXPECT_EQ(full.ForPrompt(10, 6), 1U);
  EXPECT_EQ(full.ForPrompt(16, 0), 1U);
}

TEST(Footprint, DecodeHoldsTheNewestPageAndOneAhead) {
  const Footprint full(16, 0);
  EXPECT_EQ(full.TargetPages(32, 100), 4U);
  EXPECT_EQ(full.TargetPages(33, 100), 4U);
  EXPECT_EQ(full.TargetPages(47, 100), 4U);
  EXPECT_EQ(full.TargetPages(48, 100), 5U);
  EXPECT_EQ(full.TargetPages(48, 16), 4U);
  EXPECT_EQ(full.TargetPages(48, 0), 3U);
  EXPECT_EQ(full.MaxPages(48, 100), 10U);
}

TEST(Footprint, EvictionCapsAtBudgetAndTwoPages) {
  const Footprint evicting(16, 64);
  EXPECT_EQ(evicting.TargetPages(64, 1000), 6U);
  EXPECT_EQ(evicting.TargetPages(80, 1000), 6U);
  EXPECT_EQ(evicting.TargetPages(96, 1000), 6U);
  EXPECT_EQ(evicting.MaxPages(64, 1000), 6U);
  EXPECT_EQ(evicting.MaxPages(64, 20), 6U);
  EXPECT_EQ(evicting.MaxPages(64, 16), 5U);
  EXPECT_EQ(evicting.TargetPages(20, 1000), 3U);
  EXPECT_EQ(evicting.ForPrompt(1000, 20), 64U);  // the prompt is paged whole before it is compacted
}

TEST(Footprint, HugeRequestsDoNotOverflow) {
  const Footprint full(16, 0);
  EXPECT_EQ(full.MaxPages(UINT32_MAX, UINT32_MAX), (2 * uint64_t{UINT32_MAX} + 15) / 16);
}

// After compaction a sequence never needs more than its prompt took.
TEST(Footprint, CompactionNeverNeedsMore) {
  for (uint64_t page : {1, 4, 16}) {
    for (uint64_t budget = page; budget <= 5 * page; budget += page) {
      const Footprint f(page, budget);
      for (uint64_t prompt = budget + 1; prompt <= budget + 4 * page; ++prompt) {
        for (uint64_t remaining = 0; remaining <= 4 * page; ++remaining) {
          ASSERT_LE(f.MaxPages(budget, remaining), f.ForPrompt(prompt, remaining));
          ASSERT_GE(f.TargetPages(budget, remaining), budget / page);
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::cache
