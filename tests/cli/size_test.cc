// folioctl size for a model whose shape is given, where the numbers follow by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/run_cli.h"

namespace folio::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// 2 layers, 4 KV heads of 8, 16 tokens: a page has 2 * 4 * 8 * 16 * 2 = 2,048 bytes.
nlohmann::json Size(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"size",       "--output", "json",       "--layers", "2",
                                        "--kv_heads", "4",        "--head_dim", "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CliResult result = Folioctl(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

TEST(SizeTest, KeepsAllPagesWithoutABudget) {
  const auto size = Size({"--prompt", "100", "--max_tokens", "60"});
  EXPECT_EQ(size["page_bytes"], 2048);
  // 160 tokens are 10 pages a layer, from the beginning.
  EXPECT_EQ(size["prompt_pages"], 20);
  EXPECT_EQ(size["decode_pages"], 20);
}

TEST(SizeTest, ABudgetCountsAfterThePrompt) {
  const auto size = Size({"--prompt", "100", "--max_tokens", "60", "--budget", "30", "--sequences",
                          "3", "--pool", "100KiB"});
  // The prompt has 7 pages a layer and one ahead; 30 tokens are 2 pages and two over the budget.
  EXPECT_EQ(size["prompt_pages"], 16);
  EXPECT_EQ(size["decode_pages"], 8);
  EXPECT_EQ(size["pool_bytes"]["least"], (16 + 2 * 8) * 2048);
  EXPECT_EQ(size["pool_bytes"]["all_prompts"], 3 * 16 * 2048);
  // 50 pages.
  EXPECT_EQ(size["sequences"]["in_prompt"], 3);
  EXPECT_EQ(size["sequences"]["decoding"], 6);
}

TEST(SizeTest, ABudgetAboveThePromptOnlyBoundsDecoding) {
  const auto size = Size({"--prompt", "20", "--max_tokens", "1000", "--budget", "64"});
  EXPECT_EQ(size["prompt_pages"], 12);
  EXPECT_EQ(size["decode_pages"], 12);
}

TEST(SizeTest, ShowsTheFlagOfTheManager) {
  const CliResult result = Folioctl({"size", "--layers", "2", "--kv_heads", "4", "--head_dim", "8",
                                     "--prompt", "100", "--max_tokens", "60", "--sequences", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("--pool_bytes=40960 (40.0 KiB)"));
}

TEST(SizeTest, RefusesHalfAShapeAndNumbersThatAreNone) {
  // The parser names one of the two that are missing, by the order of their addresses.
  EXPECT_THAT(Folioctl({"size", "--layers", "2"}).err,
              AnyOf(HasSubstr("--kv_heads"), HasSubstr("--head_dim")));
  EXPECT_EQ(Folioctl({"size", "--prompt", "0"}).code, 2);
  EXPECT_EQ(Folioctl({"size", "--pool", "many"}).code, 2);
}

TEST(SizeTest, WithoutAWorkerNamesTheFlagsThatReplaceIt) {
  const CliResult result = Folioctl({"size", "--address", "unix:/nowhere/worker.sock"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("give --layers, --kv_heads and --head_dim"));
}

}  // namespace
}  // namespace folio::testing
