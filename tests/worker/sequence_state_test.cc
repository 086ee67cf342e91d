// The phases of a sequence and the changes between them that are allowed.
#include "services/worker/engine/sequence_state.h"

#include <gtest/gtest.h>

#include <vector>

namespace folio::worker {
namespace {

constexpr HeldSlot kHeld = {};

SequenceState Opened(const ResolvedCache& cache = {}) {
  SequenceState state;
  state.OnGranted({SequenceId(1), LeaseEpoch(1), cache});
  return state;
}

model::StepSegment Prompt(uint32_t tokens, bool last) {
  model::StepSegment segment;
  segment.prompt = true;
  segment.tokens.assign(tokens, TokenId(1));
  segment.want_output = last;
  return segment;
}

model::StepSegment Decode() {
  model::StepSegment segment;
  segment.want_output = true;
  return segment;
}

TEST(SequenceState, APromptIsFedInChunksAndThenDecoded) {
  SequenceState state = Opened();
  EXPECT_EQ(state.phase(), Phase::kOpening);
  state.Begin(kHeld, 10);
  EXPECT_EQ(state.phase(), Phase::kPrefill);
  state.OnEnqueued(Prompt(6, false), 1, false);
  EXPECT_EQ(state.phase(), Phase::kPrefill);
  state.OnEnqueued(Prompt(4, true), 2, false);
  EXPECT_EQ(state.phase(), Phase::kDecode);
  EXPECT_EQ(state.progress().fed, 10u);
  EXPECT_EQ(state.progress().committed, 0u);
  EXPECT_EQ(state.progress().outputs_enqueued, 1u);
  state.OnCollected(6, std::nullopt);
  state.OnCollected(10, TokenId(7));
  EXPECT_EQ(state.progress().committed, 10u);
  EXPECT_EQ(state.progress().outputs_collected, 1u);
  EXPECT_EQ(state.progress().last_token, TokenId(7));
  state.OnEnqueued(Decode(), 3, true);
  EXPECT_EQ(state.phase(), Phase::kDecode);
  EXPECT_EQ(state.progress().busy_until, 3u);
}

TEST(SequenceState, APromptOverTheBudgetOfSomeLayerAwaitsItsPlan) {
  for (const uint32_t budget : {8u, 16u}) {
    SequenceState state = Opened({{TokenCount(16), TokenCount(budget)}, false, {}, {}});
    state.Begin(kHeld, 10);
    state.OnEnqueued(Prompt(10, true), 1, false);
    if (budget == 16) {
      EXPECT_EQ(state.phase(), Phase::kDecode);
      continue;
    }
    EXPECT_EQ(state.phase(), Phase::kAwaitPlan);
    EXPECT_DEATH(state.OnEnqueued(Decode(), 2, false), "phase_");
    state.OnCompacted(3);
    EXPECT_EQ(state.phase(), Phase::kDecode);
    EXPECT_EQ(state.progress().busy_until, 3u);
  }
}

TEST(SequenceState, OnlyASynchronousOneThatEvictsAwaitsReplies) {
  for (const bool evicts : {false, true}) {
    for (const bool synchronous : {false, true}) {
      ResolvedCache cache;
      if (evicts) cache.layer_budgets = {TokenCount(16)};
      cache.synchronous = synchronous;
      SequenceState state = Opened(cache);
      state.Begin(kHeld, 3);
      state.OnEnqueued(Prompt(3, true), 1, false);
      state.OnEnqueued(Decode(), 2, true);
      EXPECT_EQ(state.phase(), evicts && synchronous ? Phase::kAwaitReply : Phase::kDecode);
      state.OnReported(9);
      state.OnReply(9);
      EXPECT_EQ(state.phase(), Phase::kDecode);
    }
  }
}

TEST(SequenceState, AnotherWorkersSequenceContinuesWhereItWas) {
  SequenceState in_prompt = Opened();
  in_prompt.Begin(kHeld, 10, 6);
  EXPECT_EQ(in_prompt.phase(), Phase::kPrefill);
  EXPECT_EQ(in_prompt.progress().fed, 6u);
  SequenceState decoding = Opened();
  decoding.SetSampled({TokenId(4), TokenId(5)});
  decoding.Begin(kHeld, 10, 11);
  EXPECT_EQ(decoding.phase(), Phase::kDecode);
  EXPECT_EQ(decoding.progress().outputs_enqueued, 2u);
  EXPECT_EQ(decoding.progress().outputs_collected, 2u);
  EXPECT_EQ(decoding.progress().last_token, TokenId(5));
}

TEST(SequenceState, AnEndIsFinal) {
  SequenceState state;
  state.Close();
  state.OnGranted({SequenceId(1), LeaseEpoch(1), {}});  // it still has to be closed
  EXPECT_EQ(state.phase(), Phase::kClosing);
  EXPECT_TRUE(state.grant().has_value());
  EXPECT_DEATH(state.Begin(kHeld, 3), "phase_");
  EXPECT_DEATH(state.OnCompacted(1), "phase_");
  state.OnReported(1);
  state.OnReply(1);
  EXPECT_EQ(state.phase(), Phase::kClosing);
}

}  // namespace
}  // namespace folio::worker
