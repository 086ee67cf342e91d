#include "services/manager/pools_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace folio::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Refusal(const std::vector<std::string>& given) {
  const auto pools = ParsePools(given);
  EXPECT_EQ(pools.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(pools.status().message());
}

TEST(PoolsFlag, NamesPoolsAndTheirShares) {
  EXPECT_THAT(*ParsePools({}), IsEmpty());
  const auto pools = ParsePools({"chat:70%", "embed-2:30%"});
  ASSERT_TRUE(pools.ok()) << pools.status();
  ASSERT_THAT(*pools, SizeIs(2));
  EXPECT_EQ((*pools)[1].name, "embed-2");
  EXPECT_EQ(FormatPools(*pools), "chat:70%,embed-2:30%");
  EXPECT_EQ((*pools)[0].Of(uint64_t{1000}), 700U);
  EXPECT_EQ((*pools)[0].Of(PoolSize{.bytes = 1000}).bytes, 700U);
  EXPECT_DOUBLE_EQ((*pools)[0].Of(PoolSize{.share = 0.5}).share, 0.35);
  EXPECT_FALSE((*pools)[0].Of(PoolSize{.bytes = 1}).is_share());
}

TEST(PoolsFlag, SharesOfEverythingMayBeRounded) {
  EXPECT_TRUE(ParsePools({"a:33.3%", "b:33.3%", "c:33.4%"}).ok());
  EXPECT_TRUE(ParsePools({"a:70%", "b:20%", "c:10%"}).ok());
  EXPECT_THAT(Refusal({"a:70%", "b:40%"}), HasSubstr("110% together; give at most 100%"));
}

TEST(PoolsFlag, RefusesWhatIsNoPool) {
  for (const char* name : {"", "Chat", "a b", "a/b", "..", "0123456789012345678901234567890123"}) {
    EXPECT_THAT(Refusal({std::string(name) + ":50%"}), HasSubstr("is not a name")) << name;
  }
  for (const char* share : {"", ":", ":0%", ":101%", ":half", ":2GiB", ":nan%", ":-5%"}) {
    EXPECT_THAT(Refusal({std::string("chat") + share}), HasSubstr("gives no share")) << share;
  }
  EXPECT_THAT(Refusal({"chat:10%", "chat:20%"}), HasSubstr("names the pool chat twice"));
}

TEST(PoolShareOfFreeMemory, DoesNotDependOnWhichPoolCameFirst) {
  PoolSize first = {.share = 0.6}, second = {.share = 0.2};
  EXPECT_EQ(first.ShareOf("cuda:0", 1000), 600U);
  second.beside = {{"cuda:0", 600}, {"cuda:1", 5000}};
  EXPECT_EQ(second.ShareOf("cuda:0", 400), 200U);
  first.beside = {{"cuda:0", 200}};
  EXPECT_EQ(first.ShareOf("cuda:0", 800), 600U);
  EXPECT_EQ(first.ShareOf("cuda:0", 500), 420U);
  second.beside = {{"cuda:0", 9000}};
  EXPECT_EQ(second.ShareOf("cuda:0", 100), 100U) << "others have taken what was its own";
}

}  // namespace
}  // namespace folio::manager
