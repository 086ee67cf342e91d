// Sequences whose workers are lost again and again, each time before they made progress.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/orphan_fixture.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GivenUpTest : public OrphanTest {
 protected:
  static constexpr WorkerAbilities kAble = {.prefill_ahead = {}, .parks = true, .streams = true};

  static policy::CacheConfig Streamed() {
    policy::CacheConfig cache = Cache(policy::StreamingLlmSpec(), 12);
    cache.compaction = policy::Compaction::kStreamed;
    cache.compaction_stride = TokenCount(8);
    return cache;
  }
  WorkerSequence OpenAble(uint32_t prompt, const policy::CacheConfig& cache) {
    OpenRequest request = Resumable(first_, prompt, 20, cache);
    request.abilities = kAble;
    return MustOpen(coordinator_, request);
  }
  // A new worker claims the sequence, if it has not ended.
  bool ClaimNext(WorkerSequence* sequence) {
    const WorkerId worker = coordinator_.AddWorker("doomed");
    const absl::StatusOr<Claimed> claimed =
        coordinator_.Claim({worker, sequence->id, "secret", kAble});
    if (claimed.ok()) Adopt(worker, *claimed, sequence);
    return claimed.ok();
  }
  void Lose(const WorkerSequence& sequence) { coordinator_.FenceWorker(sequence.worker, true); }
  // Commits up to `length`, and carries out each plan on the way, but none at `length` itself.
  static void ComputeTo(uint32_t length, uint32_t step, WorkerSequence* sequence) {
    while (sequence->logical < length) {
      if (sequence->plan.has_value()) {
        ASSERT_TRUE(sequence->Ack().ok());
      }
      const uint32_t tokens = std::min(step, length - sequence->logical);
      ASSERT_TRUE(sequence->Commit(tokens).ok()) << sequence->logical;
    }
  }
  // Its worker parks it and begins to compute it again.
  void Restart(WorkerSequence* sequence) {
    Parking parking = harness_.parking();
    ASSERT_TRUE(parking.Park(sequence->worker, sequence->id, sequence->epoch).ok());
    const auto again = parking.Unpark(sequence->worker, sequence->id, sequence->epoch);
    ASSERT_TRUE(again.ok()) << again.status();
    sequence->tables = again->pages;
    sequence->resident.assign(again->pages.size(), 0);
    sequence->logical = 0;
    sequence->plan.reset();
  }
};

TEST_F(GivenUpTest, TwoClaimsInARowWithoutProgressAreTheEnd) {
  WorkerSequence sequence = Open(first_, 10, 20);
  ASSERT_TRUE(sequence.Commit(10).ok());
  Open(second_);                           // stays
  coordinator_.FenceWorker(first_, true);  // the one that opened it does not count
  for (int losses = 1; losses <= 2; ++losses) {
    const WorkerId worker = coordinator_.AddWorker("doomed");
    const absl::StatusOr<Claimed> claimed = Claim(worker, sequence.id);
    ASSERT_TRUE(claimed.ok()) << claimed.status();
    Adopt(worker, *claimed, &sequence);
    CommitRequest backwards = sequence.Next(0, 4);
    backwards.logical_length = TokenCount(9);
    EXPECT_FALSE(sequence.Send(backwards).ok()) << "a refused commit is not progress";
    EXPECT_TRUE(sequence.Commit(0).ok()) << "a commit without tokens is not progress either";
    EXPECT_EQ(Pool().given_up, 0U);
    coordinator_.FenceWorker(worker, false);
    EXPECT_EQ(Pool().orphans(), losses == 1 ? 1U : 0U);
    if (losses == 2) {
      EXPECT_GT(Pool().quarantined, PageCount(0)) << "its process may still write the pages";
    }
    coordinator_.ConfirmExited(worker);
  }
  EXPECT_EQ(Pool().given_up, 1U);
  EXPECT_THAT(Inspector(coordinator_).NewestGivenUp(5), ElementsAre(sequence.id));
  EXPECT_EQ(Pool().sequences, 1U);
  for (int asked = 0; asked < 2; ++asked) {
    const absl::Status ended = Claim(second_, sequence.id).status();
    EXPECT_EQ(ended.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(ended.message()), HasSubstr("2 workers in a row were lost"));
  }
  EXPECT_EQ(Pool().free, PageCount(kPages) - Inspector(coordinator_).sequences()[0].held_pages);
}

TEST_F(GivenUpTest, ProgressForgivesAClaim) {
  WorkerSequence sequence =
      Open(first_, 8, 40,
           Cache(policy::StreamingLlmSpec(), 12, 4, 4, policy::EvictionMode::kSynchronous));
  ASSERT_TRUE(sequence.Commit(8).ok());
  coordinator_.FenceWorker(first_, true);
  int acknowledged = 0;
  for (int lost = 0; lost < 12; ++lost) {
    const WorkerId worker = coordinator_.AddWorker("doomed");
    const absl::StatusOr<Claimed> claimed = Claim(worker, sequence.id);
    ASSERT_TRUE(claimed.ok()) << claimed.status();
    Adopt(worker, *claimed, &sequence);
    // Each second worker makes one step of progress.
    if (lost % 2 == 1) {
      ASSERT_TRUE(sequence.plan.has_value() ? sequence.Ack().ok() : sequence.Commit(3).ok());
      acknowledged += claimed->plan.has_value() ? 1 : 0;
    }
    coordinator_.FenceWorker(worker, true);
    ASSERT_EQ(Pool().orphans(), 1U) << lost;
  }
  EXPECT_GT(acknowledged, 0) << "an acknowledgement is progress too";
  EXPECT_EQ(Pool().given_up, 0U);
}

TEST_F(GivenUpTest, APromptThatEndsItsWorkersAtItsCompactionIsTheEnd) {
  WorkerSequence sequence = OpenAble(30, Cache(policy::StreamingLlmSpec(), 12));
  ComputeTo(30, 10, &sequence);
  Lose(sequence);
  int claims = 0;
  for (; claims < 10 && ClaimNext(&sequence); ++claims) {
    ASSERT_EQ(sequence.logical, 0U) << "some tokens may have been moved, so none counts";
    ComputeTo(30, 10, &sequence);
    ASSERT_TRUE(sequence.plan.has_value());
    Lose(sequence);
  }
  EXPECT_EQ(claims, 2);
  EXPECT_EQ(Pool().given_up, 1U);
}

TEST_F(GivenUpTest, APromptThatEndsItsWorkersAtALaterBoundaryIsTheEnd) {
  WorkerSequence sequence = OpenAble(44, Streamed());
  ComputeTo(32, 8, &sequence);
  Lose(sequence);
  int claims = 0;
  for (; claims < 10 && ClaimNext(&sequence); ++claims) {
    ASSERT_EQ(sequence.logical, 0U);
    // Those of the compactions at 16 and 24 are acknowledged again.
    ComputeTo(32, 8, &sequence);
    ASSERT_EQ(sequence.plan->epoch, PlanEpoch(3U * (claims + 2U)));
    Lose(sequence);
  }
  EXPECT_EQ(claims, 2);
  EXPECT_EQ(Pool().given_up, 1U);
}

TEST_F(GivenUpTest, ASequenceThatIsComputedAgainToTheSamePointIsTheEnd) {
  for (const bool compacts : {false, true}) {
    const policy::CacheConfig cache =
        compacts ? Cache(policy::StreamingLlmSpec(), 12) : FullCache();
    first_ = coordinator_.AddWorker("first");
    WorkerSequence sequence = OpenAble(20, cache);
    ComputeTo(26, 1, &sequence);
    Lose(sequence);
    int claims = 0;
    for (; claims < 10 && ClaimNext(&sequence); ++claims) {
      ASSERT_EQ(sequence.logical, 26U);
      Restart(&sequence);
      ComputeTo(26, 1, &sequence);
      Lose(sequence);
    }
    EXPECT_EQ(claims, 2) << compacts;
  }
  EXPECT_EQ(Pool().given_up, 2U);
}

TEST_F(GivenUpTest, ACompactionThatWasDoneBeforeIsNotProgress) {
  WorkerSequence sequence = OpenAble(30, Cache(policy::StreamingLlmSpec(), 12));
  ComputeTo(30, 30, &sequence);
  ASSERT_TRUE(sequence.Ack().ok());
  Lose(sequence);
  int claims = 0;
  for (; claims < 10 && ClaimNext(&sequence); ++claims) {
    Restart(&sequence);
    ComputeTo(30, 30, &sequence);
    ASSERT_TRUE(sequence.Ack().ok());
    Lose(sequence);
  }
  EXPECT_EQ(claims, 2);
}

TEST_F(GivenUpTest, WhatGetsFurtherEachSecondTimeIsNotTheEnd) {
  WorkerSequence sequence = OpenAble(60, Streamed());
  uint32_t reached = 16;
  ComputeTo(reached, 8, &sequence);
  Lose(sequence);
  for (int lost = 0; reached < 80; ++lost) {
    ASSERT_TRUE(ClaimNext(&sequence)) << reached;
    if (reached > 60) Restart(&sequence);
    if (lost % 2 == 1) reached += reached < 56 ? 8 : 4;
    ComputeTo(reached, 4, &sequence);
    Lose(sequence);
    ASSERT_EQ(Pool().orphans(), 1U) << reached;
  }
  EXPECT_EQ(Pool().given_up, 0U);
  EXPECT_EQ(sequence.epoch, LeaseEpoch(23));
}

TEST_F(GivenUpTest, AnAcknowledgementAloneIsProgress) {
  WorkerSequence sequence = OpenAble(30, Cache(policy::StreamingLlmSpec(), 12));
  ComputeTo(30, 30, &sequence);
  Lose(sequence);
  for (int lost = 0; lost < 3; ++lost) {
    ASSERT_TRUE(ClaimNext(&sequence)) << lost;
    ComputeTo(30, 30, &sequence);
    if (lost == 1) {
      ASSERT_TRUE(sequence.Ack().ok());
    }
    Lose(sequence);
    ASSERT_EQ(Pool().orphans(), 1U) << lost;
  }
  EXPECT_EQ(Pool().given_up, 0U);
}

TEST_F(GivenUpTest, TheReasonIsKnownForTheNewestOfThem) {
  std::vector<SequenceId> ended;
  for (int i = 0; i < 1030; ++i) {
    WorkerId worker = coordinator_.AddWorker("doomed");
    ended.push_back(Open(worker, 1, 1).id);
    coordinator_.FenceWorker(worker, true);
    for (int losses = 0; losses < 2; ++losses) {
      worker = coordinator_.AddWorker("doomed");
      ASSERT_TRUE(Claim(worker, ended.back()).ok());
      coordinator_.FenceWorker(worker, true);
    }
  }
  EXPECT_EQ(Pool().given_up, 1030U);
  EXPECT_EQ(Inspector(coordinator_).NewestGivenUp(5000).size(), 1024U);
  EXPECT_THAT(std::string(Claim(second_, ended.front()).status().message()),
              HasSubstr("is not open"));
  EXPECT_THAT(std::string(Claim(second_, ended.back()).status().message()),
              HasSubstr("were lost after"));
}

}  // namespace
}  // namespace folio::cache
