// Optimistic admission: prompt pages by chunks, a pool that runs dry, parked sequences, and the
// line across workers.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/optimistic_fixture.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ParkingTest : public OptimisticTest {
 protected:
  SequenceState StateOf(const WorkerSequence& sequence) { return Info(sequence).state; }
  absl::StatusCode Open(const OpenRequest& request) {
    return harness_.coordinator->Open(request).status().code();
  }
};

TEST_F(ParkingTest, APromptGetsThePagesOfItsNextChunks) {
  OpenRequest request = Asking(24, 8, worker_);
  request.abilities.prefill_ahead = TokenCount(9);
  WorkerSequence sequence = MustOpen(*harness_.coordinator, request);
  EXPECT_THAT(sequence.tables[0], SizeIs(3));
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(7 - 3));
  // Tokens behind the pages cannot have been computed.
  EXPECT_TRUE(absl::IsFailedPrecondition(sequence.Commit(13).status()));
  ASSERT_TRUE(sequence.Commit(5).ok());
  EXPECT_THAT(sequence.tables[0], SizeIs(4));  // for 14 tokens
  ASSERT_TRUE(sequence.Commit(10).ok());
  EXPECT_THAT(sequence.tables[0], SizeIs(7));  // the prompt and one ahead
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(0));
}

TEST_F(ParkingTest, PromisesThePromptAndNotTheWorstCase) {
  // Each of the three could become 80 tokens long, which is the whole pool.
  WorkerSequence first = Run(8, 72), second = Run(8, 72), third = Run(8, 72);
  EXPECT_EQ(harness_.inspector().pool().held, PageCount(9 + 3));  // one page ahead, and the next
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(0));
}

TEST_F(ParkingTest, AWorkerThatCannotParkIsPromisedTheWorstCase) {
  OpenRequest request = Asking(8, 60, worker_);
  request.abilities.parks = false;
  ASSERT_EQ(Open(request), absl::StatusCode::kOk);
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(17 - 3));
}

TEST_F(ParkingTest, TheSequenceThatIsDueLastGivesItsPagesBack) {
  WorkerSequence first = Run(24, 40), second = Run(24, 40);
  Fill(second);
  Fill(first);
  EXPECT_GE(harness_.inspector().pool().held, PageCount(19));
  const Attention asked = Attend();
  EXPECT_THAT(asked.park, ElementsAre(second.id));
  EXPECT_THAT(asked.granted, IsEmpty());
  EXPECT_THAT(Attend().park, IsEmpty());  // it is told once

  ASSERT_TRUE(harness_.parking().Park(worker_, second.id, second.epoch).ok());
  EXPECT_EQ(StateOf(second), SequenceState::kParked);
  const Attention relieved = Attend();
  ASSERT_THAT(relieved.granted, SizeIs(1));
  EXPECT_EQ(relieved.granted[0].sequence, first.id);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.Commit(1).status()));
}

TEST_F(ParkingTest, TheLastOneThatRunsIsNeverAskedBack) {
  WorkerSequence only = Run(24, 56);
  Fill(only);
  EXPECT_EQ(only.logical, 80U);  // the whole pool
  EXPECT_THAT(Attend().park, IsEmpty());
}

TEST_F(ParkingTest, PriorityDecidesWhoIsParked) {
  WorkerSequence unimportant = Run(24, 40, /*priority=*/1), important = Run(24, 40);
  Fill(important);
  Fill(unimportant);
  EXPECT_THAT(Attend().park, ElementsAre(unimportant.id));
}

TEST_F(ParkingTest, AnEarlierArrivalDoesNotMakeUpForALowerPriority) {
  WorkerSequence unimportant = Run(24, 40, /*priority=*/1);
  harness_.clock.Advance(absl::Minutes(10));
  WorkerSequence important = Run(24, 40);
  Fill(important);
  Fill(unimportant);
  EXPECT_THAT(Attend().park, ElementsAre(unimportant.id));
}

TEST_F(ParkingTest, TimeInTheLineCountsAmongEqualPriorities) {
  WorkerSequence newer = Run(24, 40);
  OpenRequest request = Asking(24, 40, worker_);
  request.urgency.waited = absl::Seconds(5);
  WorkerSequence older = MustOpen(*harness_.coordinator, request);
  ASSERT_TRUE(older.Commit(24).ok());
  Fill(older);
  Fill(newer);
  EXPECT_THAT(Attend().park, ElementsAre(newer.id));
}

TEST_F(ParkingTest, TheHigherPriorityGetsTheNextPages) {
  WorkerSequence unimportant = Run(24, 40, /*priority=*/1);
  harness_.clock.Advance(absl::Minutes(10));
  WorkerSequence important = Run(16, 40), last = Run(8, 12, /*priority=*/2);
  Fill(important);
  Fill(unimportant);
  Fill(last);
  Fill(important);
  EXPECT_THAT(Attend().park, ElementsAre(last.id));
  ASSERT_TRUE(harness_.parking().Park(worker_, last.id, last.epoch).ok());
  const Attention relieved = Attend();
  ASSERT_FALSE(relieved.granted.empty());
  EXPECT_EQ(relieved.granted[0].sequence, important.id);
}

TEST_F(ParkingTest, WhoNeedsNoPagesAnyMoreIsLeftAlone) {
  WorkerSequence first = Run(24, 40), second = Run(24, 40);
  Fill(second);
  Fill(first);
  ASSERT_TRUE(first.Close().ok());
  const Attention attention = Attend();
  EXPECT_THAT(attention.park, IsEmpty());
  ASSERT_THAT(attention.granted, SizeIs(1));
  EXPECT_EQ(attention.granted[0].sequence, second.id);
}

TEST_F(ParkingTest, AParkedSequenceIsComputedAgain) {
  WorkerSequence sequence = Run(8, 20);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(sequence.Commit(1).ok());
  ASSERT_EQ(sequence.known, 15U);
  ASSERT_TRUE(harness_.parking().Park(worker_, sequence.id, sequence.epoch).ok());
  EXPECT_EQ(harness_.inspector().pool().free, PageCount(20));
  absl::StatusOr<Unparked> again = harness_.parking().Unpark(worker_, sequence.id, sequence.epoch);
  ASSERT_TRUE(again.ok()) << again.status();
  sequence.tables = again->pages;
  sequence.resident = {0};
  sequence.logical = 0;
  // No token is sampled for the record until the steps have come to its end.
  ASSERT_TRUE(sequence.Commit(8).ok());
  for (int i = 0; i < 6; ++i) {
    ASSERT_THAT(sequence.Next(1, 4).sampled, IsEmpty());
    ASSERT_TRUE(sequence.Commit(1).ok());
  }
  ASSERT_TRUE(sequence.Commit(1).ok());
  EXPECT_EQ(sequence.known, 16U);
  EXPECT_EQ(sequence.logical, 15U);
  // A token in the middle is not taken again.
  CommitRequest commit = sequence.Next(1, 4);
  commit.sampled.emplace_back(7);
  EXPECT_TRUE(absl::IsFailedPrecondition(sequence.Send(commit).status()));
}

TEST_F(ParkingTest, ParkedSequencesComeBeforeNewOnes) {
  WorkerSequence parked = Run(24, 8), running = Run(40, 8);
  ASSERT_TRUE(harness_.parking().Park(worker_, parked.id, parked.epoch).ok());
  WorkerSequence filler = Run(8, 8);
  const absl::Status full = harness_.parking().Unpark(worker_, parked.id, parked.epoch).status();
  EXPECT_TRUE(MayFitLater(full)) << full;
  // There is room for a small one, which would be due earlier too.
  const OpenRequest small = Asking(4, 4, other_, /*priority=*/-5);
  const absl::Status waits = harness_.coordinator->Open(small).status();
  EXPECT_TRUE(MayFitLater(waits)) << waits;
  EXPECT_THAT(std::string(waits.message()), HasSubstr("1 others wait before it"));
  ASSERT_TRUE(running.Close().ok());
  EXPECT_TRUE(harness_.parking().Unpark(worker_, parked.id, parked.epoch).ok());
  EXPECT_EQ(Open(small), absl::StatusCode::kOk);
  EXPECT_EQ(harness_.parking().Unpark(worker_, parked.id, parked.epoch).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ParkingTest, ASmallRequestDoesNotPassALargeOneOfAnotherWorker) {
  WorkerSequence running = Run(40, 8);
  const OpenRequest large = Asking(60, 8, worker_), small = Asking(4, 4, other_);
  EXPECT_EQ(Open(large), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Open(small), absl::StatusCode::kResourceExhausted);
  // It may pass once the large one has not been asked for again after a step, as its client may
  // have left.
  ASSERT_TRUE(running.Commit(1).ok());
  harness_.clock.Advance(absl::Seconds(1));
  EXPECT_EQ(Open(small), absl::StatusCode::kOk);
}

TEST_F(ParkingTest, WhoWaitedLongEnoughComesBeforeAHigherPriority) {
  WorkerSequence running = Run(40, 8);
  OpenRequest patient = Asking(60, 8, worker_, /*priority=*/2);
  patient.urgency.waited = absl::Seconds(21);  // two steps of priority are worth 20 s
  const OpenRequest important = Asking(60, 8, other_);
  EXPECT_EQ(Open(patient), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Open(important), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(running.Close().ok());
  EXPECT_EQ(Open(important), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Open(patient), absl::StatusCode::kOk);
}

TEST_F(ParkingTest, WithTheWorkerTheRequestsThatItAskedForLeaveTheLine) {
  WorkerSequence running = Run(40, 8);
  EXPECT_EQ(Open(Asking(60, 8, other_)), absl::StatusCode::kResourceExhausted);
  harness_.coordinator->FenceWorker(other_, /*quiesced=*/true);
  EXPECT_EQ(Open(Asking(4, 4, worker_)), absl::StatusCode::kOk);
}

TEST_F(ParkingTest, AParkedSequenceOutlivesItsWorker) {
  WorkerSequence parked = Run(24, 8);
  ASSERT_TRUE(parked.Commit(1).ok());
  ASSERT_TRUE(harness_.parking().Park(worker_, parked.id, parked.epoch).ok());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/true);
  WorkerSequence filler = MustOpen(*harness_.coordinator, Asking(60, 8, other_));
  ClaimRequest claim = {other_, parked.id, "token", kParks};
  const absl::Status full = harness_.coordinator->Claim(claim).status();
  EXPECT_TRUE(MayFitLater(full)) << full;
  ASSERT_TRUE(filler.Close().ok());
  const absl::StatusOr<Claimed> claimed = harness_.coordinator->Claim(claim);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(0));
  EXPECT_THAT(claimed->tokens, SizeIs(26));
  EXPECT_THAT(claimed->layers[0].pages, SizeIs(7));
}

TEST_F(ParkingTest, AParkedSequenceDoesNotWaitForTheEndOfAHungWorker) {
  WorkerSequence parked = Run(24, 8), running = Run(8, 8);
  ASSERT_TRUE(harness_.parking().Park(worker_, parked.id, parked.epoch).ok());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  // The lost worker could still write the pages of one, and has none of the other.
  EXPECT_TRUE(absl::IsUnavailable(
      harness_.coordinator->Claim({other_, running.id, "token", kParks}).status()));
  EXPECT_TRUE(harness_.coordinator->Claim({other_, parked.id, "token", kParks}).ok());
}

TEST_F(ParkingTest, NewSequencesLeaveRoomForThoseThatRun) {
  WorkerSequence first = Run(24, 40);                              // 8 pages
  EXPECT_EQ(Open(Asking(40, 4, worker_)), absl::StatusCode::kOk);  // 11, and one more for the first
  EXPECT_EQ(Open(Asking(1, 1, worker_)), absl::StatusCode::kResourceExhausted);
}

TEST_F(ParkingTest, WhatNeverFitsIsToldWhatWouldHelp) {
  const auto words = [&](const OpenRequest& request) {
    const absl::Status status = harness_.coordinator->Open(request).status();
    EXPECT_FALSE(MayFitLater(status));
    return std::string(status.message());
  };
  EXPECT_THAT(words(Asking(60, 40, worker_)), HasSubstr("lower max_new_tokens or choose"));
  EXPECT_THAT(words(Asking(100, 4, worker_)), HasSubstr("shorten the prompt"));
  OpenRequest budget = Asking(40, 80, worker_);
  budget.cache = Cache(policy::PagedEvictionSpec(), 80);
  EXPECT_THAT(words(budget), HasSubstr("lower budget_tokens or max_new_tokens"));
  budget = Asking(100, 4, worker_);
  budget.cache = Cache(policy::PagedEvictionSpec(), 16);
  EXPECT_THAT(words(budget), HasSubstr("shorten the prompt"));
}

}  // namespace
}  // namespace folio::cache
