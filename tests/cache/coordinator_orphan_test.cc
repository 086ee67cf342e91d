// Sequences that outlive their worker.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/orphan_fixture.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(OrphanTest, WaitsWithItsPagesAndIsClaimed) {
  WorkerSequence sequence = Open(first_);
  ASSERT_TRUE(sequence.Commit(10).ok());
  ASSERT_TRUE(sequence.Commit(1).ok());
  const PoolInfo before = Pool();
  coordinator_.FenceWorker(first_, /*quiesced=*/false);
  EXPECT_EQ(Pool().held, before.held);
  EXPECT_EQ(Pool().reserved, before.reserved);
  EXPECT_EQ(Pool().quarantined, PageCount(0));
  EXPECT_EQ(Pool().orphans(), 1U);
  EXPECT_EQ(Inspector(coordinator_).sequences()[0].state, SequenceState::kOrphaned);
  EXPECT_EQ(coordinator_.PagesBlockedBy(first_), before.held);

  const absl::Status early = Claim(second_, sequence.id).status();
  EXPECT_EQ(early.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(early.message()), HasSubstr("has ended, which could still write"));
  coordinator_.ConfirmExited(first_);
  EXPECT_EQ(coordinator_.PagesBlockedBy(first_), PageCount(0));
  const absl::StatusOr<Claimed> claimed = Claim(second_, sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->lease_epoch, LeaseEpoch(2));
  EXPECT_EQ(claimed->logical_length, TokenCount(11));
  EXPECT_EQ(claimed->prompt_tokens, TokenCount(10));
  EXPECT_EQ(claimed->max_new_tokens, TokenCount(20));
  EXPECT_EQ(claimed->tokens.size(), 12U);
  EXPECT_EQ(claimed->sampling.seed, 11U);
  EXPECT_EQ(claimed->label, "mine");
  EXPECT_EQ(claimed->output, "metadata");
  EXPECT_EQ(claimed->layers[0].pages, sequence.tables[0]);
  EXPECT_EQ(claimed->layers[1].resident, TokenCount(11));
  EXPECT_FALSE(claimed->plan.has_value());
  EXPECT_EQ(Pool().orphans(), 0U);

  Adopt(second_, *claimed, &sequence);
  EXPECT_TRUE(sequence.Commit(1).ok());
  EXPECT_TRUE(sequence.Commit(1).ok());
  EXPECT_TRUE(sequence.Close().ok());
  EXPECT_EQ(Pool().free, PageCount(kPages));
}

TEST_F(OrphanTest, ThoseWithoutATokenEnd) {
  MustOpen(coordinator_, Request(first_, 10, 20, FullCache()));
  coordinator_.FenceWorker(first_, false);
  EXPECT_EQ(Pool().sequences, 0U);
  EXPECT_EQ(Pool().quarantined, PageCount(8));
}

TEST_F(OrphanTest, TheOldWorkerIsOut) {
  WorkerSequence sequence = Open(first_);
  coordinator_.FenceWorker(first_, true);
  EXPECT_FALSE(sequence.Commit(3).ok());
  ASSERT_TRUE(Claim(second_, sequence.id).ok());
  EXPECT_FALSE(sequence.Commit(3).ok());
  sequence.worker = second_;  // with the old epoch
  EXPECT_EQ(sequence.Commit(3).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(OrphanTest, WhoMayNotClaim) {
  WorkerSequence sequence = Open(first_);
  const absl::Status live = Claim(second_, sequence.id).status();
  EXPECT_EQ(live.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(live.message()), HasSubstr("lease is live"));
  coordinator_.FenceWorker(first_, true);
  for (const std::string token : {"", "secrey", "secret "}) {
    EXPECT_EQ(Claim(second_, sequence.id, token).status().code(),
              absl::StatusCode::kPermissionDenied);
  }
  EXPECT_EQ(Claim(second_, SequenceId(77)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Claim(first_, sequence.id).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Claim(second_, sequence.id).ok());
  const WorkerId third = coordinator_.AddWorker("third");
  EXPECT_EQ(Claim(third, sequence.id).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(OrphanTest, EndsWhenNobodyComes) {
  const WorkerSequence one = Open(first_);
  coordinator_.FenceWorker(first_, false);
  harness_.clock.Advance(absl::Seconds(29));
  ASSERT_TRUE(coordinator_.Renew(second_).ok());
  EXPECT_THAT(coordinator_.EndExpiredOrphans(), IsEmpty());
  harness_.clock.Advance(absl::Seconds(1));
  EXPECT_THAT(coordinator_.EndExpiredOrphans(), ElementsAre(one.id));
  // Its worker's process still lives.
  EXPECT_EQ(Pool().quarantined, PageCount(8));
  EXPECT_EQ(Pool().reserved, PageCount(0));
  EXPECT_EQ(Claim(second_, one.id).status().code(), absl::StatusCode::kNotFound);
  coordinator_.ConfirmExited(first_);
  EXPECT_EQ(Pool().free, PageCount(kPages));
}

TEST_F(OrphanTest, EndsForTheRoomItTakesOldestFirst) {
  const WorkerSequence one = Open(first_, 20, 4);
  coordinator_.FenceWorker(first_, true);
  harness_.clock.Advance(absl::Seconds(1));
  const WorkerId third = coordinator_.AddWorker("third");
  const WorkerSequence two = Open(third, 20, 4);
  coordinator_.FenceWorker(third, true);
  ASSERT_EQ(Pool().free, PageCount(kPages - 24));
  // Orphans stay if the request never fits, or if it fits already.
  const WorkerSequence other = Open(second_, 40, 0);
  EXPECT_EQ(coordinator_.Open(Resumable(second_, 160, 0, FullCache())).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Pool().orphans(), 2U);
  const absl::StatusOr<Opened> opened = coordinator_.Open(Resumable(second_, 50, 0, FullCache()));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->ended, ElementsAre(one.id));
  EXPECT_EQ(Claim(second_, one.id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Claim(second_, two.id).ok());
}

// A pool that nearly all belongs to an orphan, in its grace of 10 s.
class OrphanGrace : public ::testing::Test {
 protected:
  absl::StatusOr<Opened> Open(WorkerId worker, uint32_t prompt = 100) {
    OpenRequest request = Request(worker, prompt, 20, FullCache());
    request.metadata.resume_token = "token";
    return coordinator_.Open(request);
  }
  void Pass(absl::Duration time) {
    harness_.clock.Advance(time);
    ASSERT_TRUE(coordinator_.Renew(second_).ok());
  }

  Harness harness_{
      {.pages = 64, .orphan_ttl = absl::Seconds(60), .orphan_grace = absl::Seconds(10)}};
  Coordinator& coordinator_ = *harness_.coordinator;
  WorkerId first_ = coordinator_.AddWorker("first");
  WorkerId second_ = coordinator_.AddWorker("second");
};

TEST_F(OrphanGrace, OthersWaitUntilItIsOver) {
  const absl::StatusOr<Opened> orphan = Open(first_);
  ASSERT_TRUE(orphan.ok()) << orphan.status();
  coordinator_.FenceWorker(first_, true);
  Pass(absl::Seconds(9));
  const absl::Status full = Open(second_).status();
  EXPECT_TRUE(MayFitLater(full)) << full;
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("(60 pages wait for clients of lost workers)"));
  Pass(absl::Seconds(1));
  const absl::StatusOr<Opened> opened = Open(second_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->ended, ElementsAre(orphan->sequence));
}

TEST_F(OrphanGrace, BeginsWhenTheOldWorkerIsProvenGone) {
  const absl::StatusOr<Opened> orphan = Open(first_);
  ASSERT_TRUE(orphan.ok()) << orphan.status();
  coordinator_.FenceWorker(first_, false);
  Pass(absl::Seconds(20));
  EXPECT_TRUE(MayFitLater(Open(second_, 70).status())) << "nobody could have come back yet";
  coordinator_.ConfirmExited(first_);
  coordinator_.ConfirmExited(first_);
  Pass(absl::Seconds(9));
  coordinator_.ConfirmExited(first_);
  EXPECT_TRUE(MayFitLater(Open(second_, 70).status()));
  const absl::StatusOr<Claimed> claimed = coordinator_.Claim({second_, orphan->sequence, "token"});
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  // The next loss has a grace of its own.
  const WorkerId third = coordinator_.AddWorker("third");
  coordinator_.FenceWorker(second_, false);
  harness_.clock.Advance(absl::Seconds(20));
  ASSERT_TRUE(coordinator_.Renew(third).ok());
  EXPECT_TRUE(MayFitLater(Open(third, 70).status()));
  coordinator_.ConfirmExited(second_);
  harness_.clock.Advance(absl::Seconds(10));
  ASSERT_TRUE(coordinator_.Renew(third).ok());
  const absl::StatusOr<Opened> opened = Open(third, 70);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->ended, ElementsAre(orphan->sequence));
}

TEST_F(OrphanGrace, EndsWithItsTime) {
  const absl::StatusOr<Opened> orphan = Open(first_);
  ASSERT_TRUE(orphan.ok()) << orphan.status();
  coordinator_.FenceWorker(first_, false);
  Pass(absl::Seconds(59));
  coordinator_.ConfirmExited(first_);
  Pass(absl::Seconds(1));
  EXPECT_THAT(coordinator_.EndExpiredOrphans(), ElementsAre(orphan->sequence));
}

TEST_F(OrphanTest, ADropThatWasNotAcknowledgedIsNamedAgain) {
  WorkerSequence sequence =
      Open(first_, 8, 30,
           Cache(policy::StreamingLlmSpec(), 12, 4, 4, policy::EvictionMode::kSynchronous));
  ASSERT_TRUE(sequence.Commit(8).ok());
  while (!sequence.plan.has_value()) ASSERT_TRUE(sequence.Commit(1).ok());
  const std::vector<PageList> tables = sequence.tables;
  coordinator_.FenceWorker(first_, true);
  const absl::StatusOr<Claimed> claimed = Claim(second_, sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  ASSERT_TRUE(claimed->plan.has_value());
  EXPECT_EQ(claimed->plan->epoch, sequence.plan->epoch);
  EXPECT_EQ(claimed->layers[0].pages, tables[0]);
  Adopt(second_, *claimed, &sequence);
  EXPECT_FALSE(sequence.Commit(1).ok()) << "synchronous: the plan comes first";
  ASSERT_TRUE(sequence.Ack().ok());
  EXPECT_TRUE(sequence.Commit(1).ok());
  EXPECT_EQ(Inspector(coordinator_).sequences()[0].evicted_pages, PageCount(2));
}

TEST_F(OrphanTest, ACompactionThatWasNotAcknowledgedIsComputedAgain) {
  WorkerSequence sequence = Open(first_, 40, 30, Cache(policy::StreamingLlmSpec(), 16));
  ASSERT_TRUE(sequence.Commit(40).ok());
  ASSERT_TRUE(sequence.plan.has_value());
  coordinator_.FenceWorker(first_, true);
  EXPECT_EQ(Pool().free, PageCount(kPages));
  const absl::StatusOr<Claimed> claimed = Claim(second_, sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_FALSE(claimed->plan.has_value());
  EXPECT_EQ(claimed->logical_length, TokenCount(0));
  EXPECT_EQ(claimed->tokens.size(), 41U);
  Adopt(second_, *claimed, &sequence);
  ASSERT_TRUE(sequence.Commit(40).ok());
  ASSERT_TRUE(sequence.plan.has_value());
  EXPECT_TRUE(sequence.Ack().ok());
  EXPECT_TRUE(sequence.Commit(1).ok());
}

TEST_F(OrphanTest, ACompactionThatAHungWorkerMayCarryOutIsComputedAgainElsewhere) {
  WorkerSequence sequence = Open(first_, 40, 30, Cache(policy::StreamingLlmSpec(), 16));
  const PageCount held = Pool().held;
  ASSERT_TRUE(sequence.Commit(40).ok());
  ASSERT_TRUE(sequence.plan.has_value());
  coordinator_.FenceWorker(first_, false);
  EXPECT_EQ(Pool().quarantined, held);
  // The process still runs, and cannot write the pages that the sequence gets now.
  const absl::StatusOr<Claimed> claimed = Claim(second_, sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  for (const LayerTableInfo& layer : claimed->layers) {
    for (const PageRef page : layer.pages) {
      for (const PageList& old : sequence.tables) {
        EXPECT_EQ(std::count(old.begin(), old.end(), page), 0);
      }
    }
  }
  coordinator_.ConfirmExited(first_);
  EXPECT_EQ(Pool().quarantined, PageCount(0));
}

TEST_F(OrphanTest, APromptGoesOnFromItsLastChunk) {
  WorkerSequence sequence = Open(first_, 40, 30, Cache(policy::StreamingLlmSpec(), 16));
  ASSERT_TRUE(sequence.Commit(20).ok());
  coordinator_.FenceWorker(first_, true);
  const absl::StatusOr<Claimed> claimed = Claim(second_, sequence.id);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(20));
  EXPECT_EQ(claimed->tokens.size(), 40U);
  Adopt(second_, *claimed, &sequence);
  ASSERT_TRUE(sequence.Commit(20).ok());
  EXPECT_TRUE(sequence.plan.has_value());
}

TEST(OrphanTtl, ZeroEndsThemAtOnce) {
  Harness harness;
  const WorkerId worker = harness.coordinator->AddWorker("first");
  OpenRequest request = Request(worker, 10, 20, FullCache());
  request.metadata.resume_token = "secret";
  MustOpen(*harness.coordinator, request);
  harness.coordinator->FenceWorker(worker, false);
  EXPECT_EQ(harness.inspector().pool().sequences, 0U);
  EXPECT_EQ(harness.inspector().pool().quarantined, PageCount(8));
}

}  // namespace
}  // namespace folio::cache
