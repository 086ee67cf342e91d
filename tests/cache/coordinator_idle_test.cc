// Sequences that stand still because their clients do not read make room for others, also for those
// of other workers.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kIdle = Preemption::kStandsStillAfter;

// 20 pages of 4 tokens, 1 layer.
class IdleTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  OpenRequest Asking(WorkerId worker, uint32_t prompt, uint32_t max_new = 40) {
    OpenRequest request = Request(worker, prompt, max_new, FullCache());
    request.abilities = {.prefill_ahead = TokenCount(0), .parks = true, .swaps = true};
    request.waits_for_room = true;
    harness_.clock.Advance(absl::Milliseconds(1));  // no two are due at the same moment
    return request;
  }
  WorkerSequence Run(WorkerId worker, uint32_t prompt) {
    WorkerSequence sequence = MustOpen(*harness_.coordinator, Asking(worker, prompt));
    EXPECT_TRUE(sequence.Commit(prompt).ok());
    return sequence;
  }
  // A request of the other worker that needs 16 pages asks once more.
  absl::Status OtherAsks() { return harness_.coordinator->Open(Asking(other_, 60, 8)).status(); }
  // What the worker is told when its oldest step has run for so long, or none runs.
  Attention Tell(absl::Duration in_flight = absl::ZeroDuration()) {
    const auto milliseconds = static_cast<uint32_t>(absl::ToInt64Milliseconds(in_flight));
    EXPECT_TRUE(
        harness_.coordinator->Renew(worker_, StepProgress{.in_flight_ms = milliseconds}).ok());
    return harness_.parking().Attend(worker_);
  }

  Harness harness_{
      {.pages = 20, .layers = 1, .admission = Admission::kOptimistic, .swap_slots = 40}};
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
  WorkerId other_ = harness_.coordinator->AddWorker("other");
};

TEST_F(IdleTest, OneThatIsLeftOutOfStepsMakesRoomForAnotherWorker) {
  WorkerSequence idle = Run(worker_, 24);
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  EXPECT_THAT(Tell().park, IsEmpty());
  harness_.clock.Advance(kIdle);
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  const Attention asked = Tell();
  EXPECT_THAT(asked.park, ElementsAre(idle.id));  // although no other sequence runs
  EXPECT_THAT(asked.swap, SizeIs(1));
  EXPECT_THAT(Tell().park, IsEmpty());  // it is told once
  ASSERT_TRUE(harness_.parking().Park(worker_, idle.id, idle.epoch, /*swapped=*/true).ok());
  EXPECT_EQ(OtherAsks(), absl::OkStatus());
}

TEST_F(IdleTest, ItKeepsItsPagesWhileNobodyWaits) {
  WorkerSequence idle = Run(worker_, 24);
  harness_.clock.Advance(10 * kIdle);
  EXPECT_THAT(Tell().park, IsEmpty());
}

TEST_F(IdleTest, OneWhoseStepTakesLongIsNotIdle) {
  WorkerSequence slow = Run(worker_, 24);
  harness_.clock.Advance(2 * kIdle);
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  EXPECT_THAT(Tell(2 * kIdle).park, IsEmpty());
  EXPECT_THAT(Tell(1.5 * kIdle).park, IsEmpty());
  // A step that began later does not have it.
  EXPECT_THAT(Tell(0.5 * kIdle).park, ElementsAre(slow.id));
}

TEST_F(IdleTest, OneThatGetsTokensIsNotIdle) {
  WorkerSequence reads = Run(worker_, 24), idle = Run(worker_, 8);
  harness_.clock.Advance(kIdle);
  ASSERT_TRUE(reads.Commit(1).ok());
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  EXPECT_THAT(Tell().park, ElementsAre(idle.id));
}

TEST_F(IdleTest, APromptMayWaitForItsTurn) {
  WorkerSequence prompt = MustOpen(*harness_.coordinator, Asking(worker_, 24));
  ASSERT_TRUE(prompt.Commit(8).ok());
  harness_.clock.Advance(kIdle);
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  EXPECT_THAT(Tell().park, IsEmpty());
}

TEST_F(IdleTest, OneThatLackedPagesIsNotIdleOnceItHasThem) {
  WorkerSequence first = Run(worker_, 24), second = Run(other_, 40);
  while (second.Room() > 0) ASSERT_TRUE(second.Commit(1).ok());
  while (first.Room() > 0) ASSERT_TRUE(first.Commit(1).ok());
  harness_.clock.Advance(kIdle);
  EXPECT_THAT(Tell().park, IsEmpty());  // it lacks pages, and so does the other, which is due later
  EXPECT_THAT(harness_.parking().Attend(other_).park, ElementsAre(second.id));
  ASSERT_TRUE(harness_.parking().Park(other_, second.id, second.epoch).ok());
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  EXPECT_THAT(Tell().granted, SizeIs(1));
  EXPECT_THAT(Tell().park, IsEmpty());
  harness_.clock.Advance(kIdle);
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  EXPECT_THAT(Tell().park, ElementsAre(first.id));
}

TEST_F(IdleTest, AWorkerThatDoesNotTellItsProgressKeepsThem) {
  WorkerSequence idle = Run(worker_, 24);
  harness_.clock.Advance(kIdle);
  EXPECT_TRUE(MayFitLater(OtherAsks()));
  EXPECT_THAT(harness_.parking().Attend(worker_).park, IsEmpty());
}

}  // namespace
}  // namespace folio::cache
