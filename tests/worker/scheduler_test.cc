// The choice of the next step, over sequences and tables without an executor.
#include "services/worker/engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "services/model/executor/sequence_tables.h"

namespace folio::worker {
namespace {

using ::testing::ElementsAre;

constexpr CacheGeometry kGeometry = {
    .num_layers = 2, .num_kv_heads = 1, .head_dim = 8, .page_tokens = 4};

class NoClient final : public ResultSink {
 public:
  void OnEvent(Event) override {}
  void OnEnd(absl::Status) override {}
};

class SchedulerTest : public ::testing::Test {
 protected:
  // A sequence that has its pages. It is scored, so that its tokens need no tokenizer.
  Sequence* Add(uint32_t prompt, uint32_t outputs = 50, ScorePlan scores = {},
                const ResolvedCache& cache = {}) {
    auto submission = std::make_shared<Submission>();
    submission->sink = &client_;
    for (uint32_t i = 0; i < prompt; ++i) submission->request.prompt.emplace_back(i);
    submission->request.targets.assign(outputs, TokenId(9));
    submission->request.max_new_tokens = outputs;
    sequences_.push_back(std::make_unique<Sequence>(sequences_.size(), submission, nullptr));
    Sequence* sequence = sequences_.back().get();
    EXPECT_TRUE(sequence->answer().Start({}).ok());
    sequence->state().OnGranted({SequenceId(sequences_.size()), LeaseEpoch(1), cache});
    sequence->state().Begin({tables_.Acquire(scores.kind), scores}, prompt);
    Grant(sequence, (prompt + kGeometry.page_tokens) / kGeometry.page_tokens);
    return sequence;
  }
  void Grant(Sequence* sequence, uint32_t pages) {
    LayerPageLists lists(kGeometry.num_layers);
    for (PageList& list : lists) {
      for (uint32_t i = 0; i < pages; ++i) list.push_back({PageId(next_page_++), Generation(1)});
    }
    tables_.Extend(sequence->state().held()->slot, lists);
  }
  // Carries the step out as the step loop and a device that is never behind would. Returns the
  // tokens of each segment.
  std::vector<uint32_t> Step(const TokenBudget& budget, uint32_t max_rows = 1000) {
    batch_ = Scheduler(budget, max_rows, &tables_).ChooseBatch(sequences_);
    std::vector<uint32_t> tokens;
    for (size_t i = 0; i < batch_.sequences.size(); ++i) {
      const model::StepSegment& segment = batch_.step.segments[i];
      Sequence* sequence = batch_.sequences[i];
      tokens.push_back(static_cast<uint32_t>(segment.tokens.size()));
      tables_.state(segment.slot).table.Advance(segment.first_position, tokens.back());
      const uint32_t resident = tables_.at(segment.slot).resident(LayerIndex(0));
      const bool fills_page = !segment.prompt && resident % kGeometry.page_tokens == 0;
      sequence->state().OnEnqueued(segment, ++step_, fills_page);
      const uint32_t length = sequence->state().progress().fed;
      sequence->state().OnCollected(length, segment.want_output ? segment.target : std::nullopt);
    }
    return tokens;
  }
  const model::StepSegment& segment(size_t i) const { return batch_.step.segments[i]; }

  NoClient client_;
  model::SequenceTables tables_{kGeometry, 4096};
  SequenceList sequences_;
  Batch batch_;
  uint32_t next_page_ = 0;
  uint64_t step_ = 0;
};

TEST_F(SchedulerTest, PromptsShareTheBudgetInTheirOrder) {
  Add(10);
  Add(10);
  Add(10);
  const TokenBudget budget = {.alone = 16, .beside_decodes = 4};
  EXPECT_THAT(Step(budget), ElementsAre(10, 6));
  // One decodes now, so the prompts get less.
  EXPECT_THAT(Step(budget), ElementsAre(1, 4));
  EXPECT_TRUE(segment(1).want_output);
  EXPECT_THAT(Step(budget), ElementsAre(1, 1, 4));
  EXPECT_FALSE(segment(2).want_output);
  EXPECT_EQ(segment(2).first_position, Position(0));
}

TEST_F(SchedulerTest, AShortPromptGoesFirst) {
  Sequence* long_one = Add(100);
  const TokenBudget budget = {.alone = 16, .beside_decodes = 16};
  EXPECT_THAT(Step(budget), ElementsAre(16));
  Sequence* medium = Add(40);
  Sequence* short_one = Add(5);
  // The one that came first keeps half of the budget.
  EXPECT_THAT(Step(budget), ElementsAre(5, 3, 8));
  EXPECT_THAT(batch_.sequences, ElementsAre(short_one, medium, long_one));
  EXPECT_TRUE(segment(0).want_output);
  EXPECT_THAT(Step(budget), ElementsAre(1, 8, 8));
  EXPECT_THAT(batch_.sequences, ElementsAre(short_one, medium, long_one));
}

TEST_F(SchedulerTest, TheOldestPromptMovesOnBesideAnyNumberOfShortOnes) {
  Sequence* long_one = Add(80);
  const TokenBudget budget = {.alone = 16, .beside_decodes = 16};
  int steps = 0;
  for (; long_one->state().phase() == Phase::kPrefill; ++steps) {
    Add(8);
    Step(budget);
  }
  EXPECT_EQ(steps, 10);  // of eight tokens
}

// Also where the number of tokens bounds a step and not its time.
TEST_F(SchedulerTest, TheOldestPromptHasHalfOfAStepThatIsNotFixed) {
  const TokenBudget budget = {.alone = 64, .fixed_alone = false, .target_itl = absl::Seconds(9)};
  Scheduler scheduler(budget, 1000, &tables_);
  scheduler.OnStep({.prompt_tokens = 64}, absl::Seconds(1));
  const Sequence* oldest = Add(500);
  for (int i = 0; i < 3; ++i) Add(60);
  const Batch batch = scheduler.ChooseBatch(sequences_);
  ASSERT_EQ(batch.sequences.back(), oldest);
  EXPECT_EQ(batch.step.segments.back().tokens.size(), 32U);
  EXPECT_EQ(batch.rows(), 64U);
}

TEST_F(SchedulerTest, ASequenceWhoseClientDoesNotReadStandsStill) {
  const Sequence* slow = Add(4);
  Add(4);
  const TokenBudget budget = {.alone = 64, .beside_decodes = 64};
  EXPECT_THAT(Step(budget), ElementsAre(4, 4));
  slow->submission()->paused = true;
  EXPECT_THAT(Step(budget), ElementsAre(1));
  slow->submission()->paused = false;
  EXPECT_THAT(Step(budget), ElementsAre(1, 1));
}

TEST_F(SchedulerTest, ADecodeNeedsRoomInItsPages) {
  Sequence* sequence = Add(7);  // two pages of four
  const TokenBudget budget = {.alone = 64, .beside_decodes = 64};
  EXPECT_THAT(Step(budget), ElementsAre(7));
  EXPECT_THAT(Step(budget), ElementsAre(1));
  EXPECT_TRUE(Step(budget).empty());
  Grant(sequence, 1);
  EXPECT_THAT(Step(budget), ElementsAre(1));
}

TEST_F(SchedulerTest, ADecodeStopsAtItsLastToken) {
  Add(4, /*outputs=*/2);
  const TokenBudget budget = {.alone = 64, .beside_decodes = 64};
  EXPECT_THAT(Step(budget), ElementsAre(4));
  EXPECT_THAT(Step(budget), ElementsAre(1));
  EXPECT_TRUE(Step(budget).empty());
}

TEST_F(SchedulerTest, ASequenceThatAwaitsAReplyStandsStill) {
  Sequence* sequence = Add(6, 50, {}, {{TokenCount(8)}, /*synchronous=*/true, {}, {}});
  Grant(sequence, 1);
  const TokenBudget budget = {.alone = 64, .beside_decodes = 64};
  EXPECT_THAT(Step(budget), ElementsAre(6));
  EXPECT_THAT(Step(budget), ElementsAre(1));
  EXPECT_THAT(Step(budget), ElementsAre(1));  // fills the second page
  EXPECT_TRUE(Step(budget).empty());
  SequenceState& state = sequence->state();
  state.OnReply(3);  // to an earlier request, because the page was not reported yet
  EXPECT_TRUE(Step(budget).empty());
  state.OnReported(4);
  state.OnReply(3);
  EXPECT_TRUE(Step(budget).empty());
  state.OnReply(4);
  EXPECT_THAT(Step(budget), ElementsAre(1));
}

TEST_F(SchedulerTest, TheQueriesOfAWindowLieInOneChunk) {
  Add(20, 50, {.kind = ScoreKind::kWindowAttention, .window = {.queries = 6}});
  const TokenBudget budget = {.alone = 8, .beside_decodes = 8};
  EXPECT_THAT(Step(budget), ElementsAre(8));
  EXPECT_THAT(Step(budget), ElementsAre(6));  // up to the window
  EXPECT_EQ(segment(0).window.queries, 0u);
  EXPECT_THAT(Step(budget), ElementsAre(6));
  EXPECT_EQ(segment(0).window.queries, 6u);
}

TEST_F(SchedulerTest, AWindowMayExceedTheBudgetButNotTheRows) {
  Add(4, 50);
  Add(12, 50, {.kind = ScoreKind::kWindowAttention, .window = {.queries = 12}});
  const TokenBudget budget = {.alone = 4, .beside_decodes = 4};
  EXPECT_THAT(Step(budget), ElementsAre(4));
  EXPECT_THAT(Step(budget, /*max_rows=*/12), ElementsAre(1));
  EXPECT_THAT(Step(budget, /*max_rows=*/13), ElementsAre(1, 12));
}

TEST_F(SchedulerTest, ChunksEndWhereTheirPromptIsCompacted) {
  const ResolvedCache cache = {.layer_budgets = {TokenCount(8)},
                               .synchronous = false,
                               .compaction_stride = TokenCount(8),
                               .options = {}};
  const ScorePlan scores = {.kind = ScoreKind::kUnrotatedDifference,
                            .window = {.queries = 3, .channel = 1}};
  Sequence* sequence = Add(26, 50, scores, cache);
  const TokenBudget budget = {.alone = 6, .beside_decodes = 6};
  EXPECT_THAT(Step(budget), ElementsAre(6));
  EXPECT_THAT(Step(budget), ElementsAre(2));
  EXPECT_FALSE(segment(0).score_resident);  // 8 tokens are within the budget
  EXPECT_THAT(Step(budget), ElementsAre(6));
  EXPECT_FALSE(segment(0).score_resident);
  EXPECT_THAT(Step(budget), ElementsAre(2));
  EXPECT_TRUE(segment(0).score_resident);
  EXPECT_EQ(sequence->state().phase(), Phase::kAwaitPlan);
  EXPECT_THAT(Step(budget), ElementsAre());
  sequence->state().OnCompacted(step_);
  EXPECT_EQ(sequence->state().phase(), Phase::kPrefill);
  // The stop at 24 would leave two of the last three queries, so there is none.
  EXPECT_THAT(Step(budget), ElementsAre(6));
  EXPECT_THAT(Step(budget), ElementsAre(4));
  EXPECT_EQ(segment(0).window.queries, 3u);
  EXPECT_EQ(sequence->state().phase(), Phase::kAwaitPlan);
  sequence->state().OnCompacted(step_);
  EXPECT_EQ(sequence->state().phase(), Phase::kDecode);
}

TEST_F(SchedulerTest, ScoresOnDemandAreWrittenWhenAPageFills) {
  Add(6, 50, {.kind = ScoreKind::kKeyDifference, .window = {}});
  const TokenBudget budget = {.alone = 64, .beside_decodes = 64};
  Step(budget);
  EXPECT_TRUE(segment(0).score_resident);  // the prompt's end
  Step(budget);
  EXPECT_FALSE(segment(0).score_resident);  // the seventh token
  Step(budget);
  EXPECT_TRUE(segment(0).score_resident);  // the eighth fills a page
}

}  // namespace
}  // namespace folio::worker
