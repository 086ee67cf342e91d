// A next manager continues the sequences of one that was killed. tests/fuzz restarts random lives.
#include <algorithm>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/cache/restoration.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::IsEmpty;

class RestartTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
    EXPECT_EQ(harness_.journal.error(), absl::OkStatus());
  }
  WorkerSequence Open(uint32_t prompt = 10, const policy::CacheConfig& cache = FullCache()) {
    OpenRequest request = Request(worker_, prompt, 20, cache);
    request.metadata.resume_token = "secret";
    return MustOpen(*harness_.coordinator, request);
  }
  // Another worker asks for it.
  absl::StatusOr<Claimed> Claim(SequenceId id) {
    const WorkerId next = harness_.coordinator->AddWorker("next");
    return harness_.coordinator->Claim({next, id, "secret"});
  }
  PoolInfo Pool() { return harness_.inspector().pool(); }
  // One that decodes with a budget of 8 tokens, and has just filled a page.
  WorkerSequence OpenWithPlan() {
    WorkerSequence sequence = Open(8, Cache(policy::StreamingLlmSpec(), 8, 4, 4));
    EXPECT_TRUE(sequence.Commit(8).ok());
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(sequence.Commit(1).ok());
    EXPECT_TRUE(sequence.plan.has_value());
    return sequence;
  }

  Harness harness_{{.pages = 64, .orphan_ttl = absl::Seconds(30)}};
  WorkerId worker_ = harness_.coordinator->AddWorker("first");
};

TEST_F(RestartTest, ASequenceWaitsForTheProofThatItsWorkerWritesNoMore) {
  WorkerSequence sequence = Open();
  ASSERT_TRUE(sequence.Commit(10).ok());
  ASSERT_TRUE(sequence.Commit(1).ok());
  const PoolInfo before = Pool();
  const Restored restored = harness_.Restart({worker_});
  EXPECT_EQ(restored.kept, 1U);
  EXPECT_EQ(Pool().held, before.held);
  EXPECT_EQ(Pool().reserved, before.reserved);
  EXPECT_EQ(Claim(sequence.id).status().code(), absl::StatusCode::kUnavailable);
  harness_.coordinator->ConfirmExited(worker_);
  const absl::StatusOr<Claimed> claimed = Claim(sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(11));
  EXPECT_EQ(claimed->tokens.size(), 12U);
  EXPECT_EQ(claimed->lease_epoch, LeaseEpoch(2));
  EXPECT_EQ(claimed->layers[0].pages, sequence.tables[0]);
}

TEST_F(RestartTest, IdsContinue) {
  const SequenceId last = Open().id;
  (void)harness_.Restart({worker_});
  const WorkerId next = harness_.coordinator->AddWorker("next");
  EXPECT_GT(next, worker_);
  const WorkerSequence sequence = MustOpen(*harness_.coordinator, Request(next, 4, 4, FullCache()));
  EXPECT_GT(sequence.id, last);
}

TEST_F(RestartTest, OneWithoutATokenEndsAndItsPagesWaitForItsWorker) {
  MustOpen(*harness_.coordinator, Request(worker_, 10, 20, FullCache()));
  const PageCount held = Pool().held;
  EXPECT_EQ(harness_.Restart({worker_}).ended, 1U);
  EXPECT_EQ(Pool().quarantined, held);
  // The next manager of the next one has it as well.
  EXPECT_EQ(harness_.Restart({worker_}).ended, 0U);
  EXPECT_EQ(Pool().quarantined, held);
  harness_.coordinator->ConfirmExited(worker_);
  EXPECT_EQ(Pool().free, Pool().total);
}

TEST_F(RestartTest, APlanThatWaitedStillWaits) {
  const WorkerSequence sequence = OpenWithPlan();
  (void)harness_.Restart({});
  EXPECT_EQ(Restoration(*harness_.coordinator).Decide(), 0U);
  const absl::StatusOr<Claimed> claimed = Claim(sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->plan, sequence.plan);
}

TEST_F(RestartTest, ADecisionThatWasOwedIsMade) {
  const WorkerSequence sequence = OpenWithPlan();
  SavedCache saved = harness_.journal.Take({});
  ASSERT_EQ(saved.sequences.size(), 1U);
  // Killed between the commit and the decision.
  saved.sequences[0].plan.reset();
  saved.sequences[0].last_plan = PlanEpoch(sequence.plan->epoch.value() - 1);
  harness_.coordinator = std::make_unique<Coordinator>(harness_.options);
  Restoration restoration(*harness_.coordinator);
  EXPECT_EQ(restoration.Restore(std::move(saved)).kept, 1U);
  EXPECT_EQ(restoration.Decide(), 1U);
  const absl::StatusOr<Claimed> claimed = Claim(sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->plan, sequence.plan);
}

TEST_F(RestartTest, ACompactionThatWaitedIsComputedAgain) {
  WorkerSequence sequence = Open(16, Cache(policy::StreamingLlmSpec(), 8, 4, 4));
  ASSERT_TRUE(sequence.Commit(16).ok());
  ASSERT_TRUE(sequence.plan.has_value());
  EXPECT_EQ(harness_.Restart({worker_}).again, 1U);
  // Its worker may still move tokens in the old pages.
  EXPECT_GT(Pool().quarantined, PageCount(0));
  const absl::StatusOr<Claimed> claimed = Claim(sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(0));
  EXPECT_EQ(claimed->tokens.size(), 17U);
}

TEST_F(RestartTest, WithoutTheMemoryAllIsComputedAgain) {
  WorkerSequence sequence = Open();
  ASSERT_TRUE(sequence.Commit(10).ok());
  const Restored restored = harness_.Restart({worker_}, /*has_contents=*/false);
  EXPECT_EQ(restored.again, 1U);
  EXPECT_EQ(Pool().free, Pool().total);
  const absl::StatusOr<Claimed> claimed = Claim(sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(0));
  EXPECT_EQ(claimed->tokens.size(), 11U);
}

TEST_F(RestartTest, MemoryThatDoesNotComeBackIsGivenUp) {
  WorkerSequence sequence = Open();
  ASSERT_TRUE(sequence.Commit(10).ok());
  MustOpen(*harness_.coordinator, Request(worker_, 10, 20, FullCache()));
  EXPECT_EQ(harness_.Restart({worker_}).kept, 1U);
  EXPECT_EQ(Restoration(*harness_.coordinator).LoseContents({worker_}), 1U);
  EXPECT_EQ(Pool().free, Pool().total);
  EXPECT_THAT(Pool().workers, IsEmpty());
  const absl::StatusOr<Claimed> claimed = Claim(sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(0));
}

TEST_F(RestartTest, APageOfTwoSequencesMakesTheContentsUnbelievable) {
  WorkerSequence sequence = Open();
  Open();
  SavedCache saved = harness_.journal.Take({worker_});
  ASSERT_EQ(saved.sequences.size(), 2U);
  saved.sequences[1].layers = saved.sequences[0].layers;
  harness_.coordinator = std::make_unique<Coordinator>(harness_.options);
  const Restored restored = Restoration(*harness_.coordinator).Restore(std::move(saved));
  EXPECT_FALSE(restored.has_contents);
  EXPECT_EQ(restored.again, 2U);
  EXPECT_EQ(Pool().free, Pool().total);
}

// Only a broken journal says such things. The sequence has its tokens, and they are computed again.
TEST_F(RestartTest, ARecordThatDoesNotFitTogetherIsComputedAgain) {
  const std::vector<void (*)(SavedSequence&)> damages = {
      [](SavedSequence& saved) { saved.logical_length = TokenCount(4); },
      [](SavedSequence& saved) { saved.sampled.clear(); },
      [](SavedSequence& saved) { saved.parked = true; },
      [](SavedSequence& saved) { saved.swap = SwapUse::kIn; },
      [](SavedSequence& saved) { saved.request.max_new_tokens = TokenCount(0); },
      [](SavedSequence& saved) { saved.layers[1] = BlockTable(4); },
      [](SavedSequence& saved) {
        saved.shrinking = Shrinking({64, 64}, true);
      },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    SCOPED_TRACE(i);
    WorkerSequence sequence = Open();
    ASSERT_TRUE(sequence.Commit(10).ok());
    ASSERT_TRUE(sequence.Commit(1).ok());
    SavedCache saved = harness_.journal.Take({worker_});
    damages[i](saved.sequences.at(0));
    harness_.coordinator = std::make_unique<Coordinator>(harness_.options);
    const Restored restored = Restoration(*harness_.coordinator).Restore(std::move(saved));
    EXPECT_EQ(restored.again, 1U);
    EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
    harness_.coordinator->ConfirmExited(worker_);
    EXPECT_EQ(Pool().free, Pool().total);
    harness_.clock.Advance(absl::Seconds(31));
    harness_.coordinator->EndExpiredOrphans();
    worker_ = harness_.coordinator->AddWorker("next");
  }
}

TEST_F(RestartTest, ChangesThatDoNotFitAreErrors) {
  WorkerSequence sequence = OpenWithPlan();
  const SavedSequence saved = harness_.journal.sequences().at(sequence.id);
  const auto apply = [&](const SavedChange& change) {
    SavedSequence copy = saved;
    return copy.Apply(change).code();
  };
  const TokenCount length = saved.logical_length;
  EXPECT_EQ(apply({.drop_done = true, .logical_length = length}), absl::StatusCode::kOk);
  EXPECT_EQ(apply({.granted = {{}}, .logical_length = length}), absl::StatusCode::kInternal);
  EXPECT_EQ(apply({.logical_length = TokenCount(3)}), absl::StatusCode::kInternal);
  EXPECT_EQ(apply({.logical_length = TokenCount(4000)}), absl::StatusCode::kInternal);
  EXPECT_EQ(apply({.logical_length = length, .plan = Plan{{}, {}, CompactAction{}}}),
            absl::StatusCode::kInternal);
  SavedSequence wrong = saved;
  wrong.plan->action = DropAction{.block = {BlockIndex(900), BlockIndex(0)}};
  EXPECT_EQ(wrong.Apply({.drop_done = true, .logical_length = length}).code(),
            absl::StatusCode::kInternal);
  wrong.plan.reset();
  EXPECT_EQ(wrong.Apply({.drop_done = true, .logical_length = length}).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace folio::cache
