// Penalties, biases and excluded tokens, against numbers worked out by hand.
#include "services/model/executor/logit_edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "services/model/executor/segment_output.h"

namespace folio::model {
namespace {

using ::testing::ElementsAre;

constexpr float kNever = -INFINITY;
constexpr TokenId kNoLast{0};

LogitEdits Penalties(float presence, float frequency, float repetition) {
  LogitEdits edits;
  edits.presence_penalty = presence;
  edits.frequency_penalty = frequency;
  edits.repetition_penalty = repetition;
  return edits;
}

TEST(LogitEdits, NothingIsChangedWithoutEdits) {
  EXPECT_FALSE(LogitEdits{}.any());
  EXPECT_THAT(EditLogits({1, -2, 3}, {}, kNoLast), ElementsAre(1, -2, 3));
}

TEST(LogitEdits, ARepetitionPenaltyIsOfTheText) {
  const std::vector<LogitEdit> tokens = {{TokenId(0), 0, true}, {TokenId(1), 0, true}};
  LogitEdits edits = Penalties(0, 0, 2);
  edits.tokens = tokens;
  EXPECT_THAT(EditLogits({3, -3, 3, -3}, edits, kNoLast), ElementsAre(1.5F, -6, 3, -3));
}

TEST(LogitEdits, TheOtherPenaltiesAreOfTheAnswer) {
  const std::vector<LogitEdit> tokens = {
      {TokenId(0), 0, true}, {TokenId(1), 1, true}, {TokenId(3), 4, true}};
  LogitEdits edits = Penalties(0.5F, 0.25F, 1);
  edits.tokens = tokens;
  EXPECT_THAT(EditLogits({1, 1, 1, 1}, edits, kNoLast), ElementsAre(1, 0.25F, 1, -0.5F));
}

TEST(LogitEdits, TheOrderIsRepetitionThenPenaltiesThenBias) {
  const std::vector<LogitEdit> tokens = {{TokenId(1), 2, true, 10}};
  LogitEdits edits = Penalties(1, 2, 4);
  edits.tokens = tokens;
  EXPECT_THAT(EditLogits({0, 8}, edits, kNoLast), ElementsAre(0, 8.0F / 4 - 2 * 2 - 1 + 10));
}

TEST(LogitEdits, TheLastTokenCountsOnceMore) {
  const std::vector<LogitEdit> tokens = {{TokenId(1), 1, true}};
  LogitEdits edits = Penalties(0, 1, 2);
  edits.tokens = tokens;
  edits.counts_last = true;
  EXPECT_THAT(EditLogits({4, 4, 4}, edits, TokenId(1)), ElementsAre(4, 0, 4));
  EXPECT_THAT(EditLogits({4, 4, 4}, edits, TokenId(2)), ElementsAre(4, 1, 1));
  edits.tokens = {};
  EXPECT_TRUE(edits.any());
  EXPECT_THAT(EditLogits({4, 4, 4}, edits, TokenId(0)), ElementsAre(1, 4, 4));
}

TEST(LogitEdits, TokensBehindTheLastWordMayNotCome) {
  std::vector<float> logits(70, 1);
  const std::vector<uint32_t> allowed = {1U << 31, 1U << 2};
  LogitEdits edits;
  edits.allowed = allowed;
  const std::vector<float> edited = EditLogits(logits, edits, kNoLast);
  for (size_t i = 0; i < edited.size(); ++i) {
    EXPECT_EQ(edited[i], i == 31 || i == 34 ? 1 : kNever) << i;
  }
}

TEST(LogitEdits, ALogProbabilityIsTheModelsOwn) {
  const std::vector<float> logits = {2, 1, 0};
  const std::vector<LogitEdit> tokens = {{TokenId(0), 0, false, kNever}};
  StepSegment segment;
  segment.top_logprobs = 1;
  segment.edits.tokens = tokens;
  SegmentOutput output;
  FillOutput(segment, Position(5), kNoLast, logits, output);
  ASSERT_TRUE(output.status.ok()) << output.status;
  EXPECT_EQ(output.token, TokenId(1));
  EXPECT_NEAR(output.logprob, 1 - std::log(std::exp(2.0) + std::exp(1.0) + 1), 1e-6);
  ASSERT_EQ(output.top.size(), 1U);
  EXPECT_EQ(output.top[0].first, TokenId(0));
}

TEST(LogitEdits, WithNoTokenLeftTheOutputSaysSo) {
  const std::vector<uint32_t> allowed = {0};
  StepSegment segment;
  segment.edits.allowed = allowed;
  for (const float temperature : {0.0F, 1.0F}) {
    segment.sampling.temperature = temperature;
    SegmentOutput output;
    FillOutput(segment, Position(5), kNoLast, {2, 1, 0}, output);
    EXPECT_EQ(output.status, NoTokenLeft());
  }
}

TEST(LogitEdits, ANamedTokenNeedsNone) {
  const std::vector<uint32_t> allowed = {0};
  StepSegment segment;
  segment.edits.allowed = allowed;
  segment.target = TokenId(2);
  SegmentOutput output;
  FillOutput(segment, Position(5), kNoLast, {2, 1, 0}, output);
  ASSERT_TRUE(output.status.ok()) << output.status;
  EXPECT_EQ(output.token, TokenId(2));
}

}  // namespace
}  // namespace folio::model
