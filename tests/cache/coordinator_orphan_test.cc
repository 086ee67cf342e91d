// Sequences that outlive their worker.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kPages = 64;

class OrphanTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(Inspector(coordinator_).CheckInvariants(), absl::OkStatus());
  }
  PoolInfo Pool() { return Inspector(coordinator_).pool(); }

  static OpenRequest Resumable(WorkerId worker, uint32_t prompt, uint32_t max_new,
                               const policy::CacheConfig& cache) {
    OpenRequest request = Request(worker, prompt, max_new, cache);
    request.metadata = {.sampling = {.temperature = 0.5F, .seed = 11},
                        .label = "mine",
                        .resume_token = "secret",
                        .output = "metadata"};
    return request;
  }
  WorkerSequence Open(WorkerId worker, uint32_t prompt = 10, uint32_t max_new = 20,
                      const policy::CacheConfig& cache = FullCache()) {
    return MustOpen(coordinator_, Resumable(worker, prompt, max_new, cache));
  }
  absl::StatusOr<Claimed> Claim(WorkerId worker, SequenceId id,
                                const std::string& token = "secret") {
    return coordinator_.Claim({worker, id, token});
  }
  // Plays the next worker, which continues a claimed sequence.
  void Adopt(WorkerId worker, const Claimed& claimed, WorkerSequence* sequence) {
    sequence->worker = worker;
    sequence->epoch = claimed.lease_epoch;
    sequence->logical = claimed.logical_length.value();
    sequence->known = static_cast<uint32_t>(claimed.tokens.size());
    sequence->plan = claimed.plan;
    for (size_t layer = 0; layer < claimed.layers.size(); ++layer) {
      sequence->tables[layer] = claimed.layers[layer].pages;
      sequence->resident[layer] = claimed.layers[layer].resident.value();
    }
  }

  Harness harness_{{.pages = kPages, .orphan_ttl = absl::Seconds(30)}};
  Coordinator& coordinator_ = *harness_.coordinator;
  WorkerId first_ = coordinator_.AddWorker("first");
  WorkerId second_ = coordinator_.AddWorker("second");
};

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

TEST_F(OrphanTest, ACompactionThatWasNotAcknowledgedIsTheEnd) {
  WorkerSequence sequence = Open(first_, 40, 30, Cache(policy::StreamingLlmSpec(), 16));
  ASSERT_TRUE(sequence.Commit(40).ok());
  ASSERT_TRUE(sequence.plan.has_value());
  coordinator_.FenceWorker(first_, true);
  EXPECT_EQ(Pool().free, PageCount(kPages));
  const absl::Status lost = Claim(second_, sequence.id).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("being compacted"));
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
