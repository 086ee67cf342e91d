// A sequence whose pages are damaged fails, and those beside it in the step do not notice.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

using ::testing::HasSubstr;

class ExecutorDamageTest : public ::testing::TestWithParam<std::string> {};

// The outputs of a decode step of three sequences, of which the second may be damaged before it.
std::vector<SegmentOutput> DecodeThree(ExecutorHarness& harness, bool damage) {
  std::vector<StepSegment> decodes;
  for (uint32_t i = 0; i < 3; ++i) {
    const SequenceSlot slot = harness.Open(60);
    harness.Run({harness.Prompt(slot, RandomTokens(20 + i, 101, i), 0)});
    decodes.push_back(harness.Decode(slot, 5, 20 + i));
  }
  const BlockTables& table = harness.executor().tables().at(decodes[1].slot);
  if (damage) harness.pool().Damage(PageId(table.layer(LayerIndex(1)).pages[0]));
  // One more row, of a prompt that ends.
  decodes.push_back(harness.Prompt(harness.Open(20), RandomTokens(7, 101, 9), 0));
  std::vector<SegmentOutput> outputs = harness.Run(decodes);
  // A step may be under way that feeds what the failed one sampled.
  StepSegment next = decodes[1];
  next.tokens.clear();
  next.first_position = Position(22);
  const auto after = harness.Run({next});
  EXPECT_EQ(after.at(0).status.ok(), !damage) << after.at(0).status;
  return outputs;
}

TEST_P(ExecutorDamageTest, OthersInTheStepSayWhatTheyWouldHaveSaid) {
  ExecutorHarness whole(GetParam()), broken(GetParam());
  const auto expected = DecodeThree(whole, /*damage=*/false);
  const auto outputs = DecodeThree(broken, /*damage=*/true);
  ASSERT_EQ(outputs.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(outputs[i].slot, expected[i].slot);
    EXPECT_TRUE(expected[i].status.ok()) << expected[i].status;
    if (i == 1) continue;
    EXPECT_TRUE(outputs[i].status.ok()) << outputs[i].status;
    EXPECT_EQ(outputs[i].token, expected[i].token);
    EXPECT_EQ(outputs[i].top, expected[i].top);
  }
  EXPECT_EQ(outputs[1].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(outputs[1].status.message()),
              HasSubstr("not finite for this sequence, at position 21,"));
  EXPECT_TRUE(outputs[1].top.empty());
  EXPECT_TRUE(broken.executor().fault().ok());
}

// A client's tokens are scored. The target is given, but its log-probability is not a number.
TEST_P(ExecutorDamageTest, ATargetDoesNotHideIt) {
  ExecutorHarness harness(GetParam());
  const SequenceSlot slot = harness.Open(40);
  harness.Run({harness.Prompt(slot, RandomTokens(20, 101, 1), 0)});
  const BlockTables& table = harness.executor().tables().at(slot);
  harness.pool().Damage(PageId(table.layer(LayerIndex(0)).pages[1]));
  StepSegment decode = harness.Decode(slot, 5, 20);
  decode.target = TokenId(3);
  EXPECT_EQ(harness.Run({decode}).at(0).status.code(), absl::StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(Families, ExecutorDamageTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::model::testing
