// Budgets that an operator lowers, of sequences that are parked, swapped or claimed.
#include <variant>

#include "tests/cache/budget_fixture.h"

namespace folio::cache {
namespace {

TEST_F(BudgetTest, ASequenceThatIsComputedAgainComesDownFromItsPromptsEnd) {
  WorkerSequence sequence = Run(36, 40, Streaming(32));
  ASSERT_TRUE(sequence.plan.has_value());
  ASSERT_TRUE(sequence.Ack().ok());
  Decode(sequence, 2);
  ASSERT_TRUE(Lower(sequence, 8).ok());
  Park(sequence, /*swapped=*/false);
  // A lower order for one that holds nothing.
  EXPECT_EQ(Lower(sequence, 8).status().code(), absl::StatusCode::kInvalidArgument);
  Unpark(sequence);
  EXPECT_EQ(Lower(sequence, 8).status().code(), kRefused);
  // Its worker stops at the prompt's end, because the prompt is compacted as before.
  sequence.known = 39;
  CommitRequest prompt = sequence.Next(36, 4);
  prompt.sampled.clear();
  ASSERT_TRUE(sequence.Send(prompt).ok());
  ASSERT_TRUE(sequence.plan.has_value());
  ASSERT_TRUE(std::holds_alternative<CompactAction>(sequence.plan->action));
  ASSERT_TRUE(sequence.Ack().ok());
  EXPECT_EQ(sequence.resident[0], 32U);
  Check();
  Decode(sequence, 16);
  EXPECT_LT(sequence.resident[0], 12U);
}

TEST_F(BudgetTest, AParkedSequenceKeepsTheOrder) {
  WorkerSequence sequence = Run(24, 40, Streaming(32));
  Decode(sequence, 2);
  Park(sequence, /*swapped=*/false);
  ASSERT_TRUE(Lower(sequence, 8).ok());
  EXPECT_EQ(Lower(sequence, 8).status().code(), absl::StatusCode::kInvalidArgument);
  Unpark(sequence);
  sequence.known = 27;
  CommitRequest prompt = sequence.Next(24, 4);
  prompt.sampled.clear();
  ASSERT_TRUE(sequence.Send(prompt).ok());
  EXPECT_FALSE(sequence.plan.has_value());  // it was not over the budget that it was opened with
  Check();
  Decode(sequence, 16);
  EXPECT_LT(sequence.resident[0], 12U);
}

TEST_F(BudgetTest, ASwappedSequenceContinuesToShrink) {
  WorkerSequence sequence = Run(24, 40, Streaming(32));
  Decode(sequence, 4);
  Park(sequence, /*swapped=*/true);
  const auto lowered = Lower(sequence, 8);
  ASSERT_TRUE(lowered.ok());
  EXPECT_EQ(lowered->over, PageCount(5));
  Check();
  Unpark(sequence);
  Check();
  EXPECT_EQ(sequence.resident[0], 28U);
  Decode(sequence, 6);
  EXPECT_LT(sequence.resident[0], 28U);
  Park(sequence, /*swapped=*/true);
  Unpark(sequence);
  Decode(sequence, 12);
  EXPECT_LT(sequence.resident[0], 12U);
}

TEST_F(BudgetTest, AnotherWorkerContinuesToShrinkIt) {
  WorkerSequence sequence = Run(24, 40, Streaming(32));
  Decode(sequence, 4);
  ASSERT_TRUE(Lower(sequence, 16).ok());
  Decode(sequence, 4);
  ASSERT_TRUE(sequence.plan.has_value());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  ASSERT_TRUE(Lower(sequence, 8).ok());  // an orphan keeps the order
  Check();
  harness_.coordinator->ConfirmExited(worker_);
  const auto claimed = harness_.coordinator->Claim({other_, sequence.id, "token", kSwaps});
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  // The budget of the prompt, which tells where a prompt stops.
  EXPECT_EQ(claimed->cache.budget, TokenCount(32));
  ASSERT_TRUE(claimed->plan.has_value());
  sequence.worker = other_;
  sequence.epoch = claimed->lease_epoch;
  sequence.tables[0] = claimed->layers[0].pages;
  Check();
  Decode(sequence, 16);
  EXPECT_LT(sequence.resident[0], 12U);
}

}  // namespace
}  // namespace folio::cache
