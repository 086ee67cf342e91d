// An operator's orders: sequences that are to end, to be parked, or not to be parked.
#include <limits>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/cache/page_census.h"
#include "services/cache/steering.h"
#include "tests/cache/optimistic_fixture.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SteeringTest : public OptimisticTest {
 protected:
  Steering steering() { return Steering(*harness_.coordinator); }
};

TEST_F(SteeringTest, AWorkerIsToldOnceThatASequenceIsToEnd) {
  WorkerSequence sequence = Run(8, 40);
  EXPECT_EQ(steering().Close(sequence.id, "too long").value(), worker_);
  EXPECT_EQ(steering().Close(sequence.id, "again").value(), worker_);
  EXPECT_TRUE(Info(sequence).closing);
  EXPECT_THAT(harness_.parking().Attend(other_).close, IsEmpty());
  const Attention attention = Attend();
  ASSERT_THAT(attention.close, SizeIs(1));
  EXPECT_EQ(attention.close[0].sequence, sequence.id);
  EXPECT_EQ(attention.close[0].why, "too long");
  EXPECT_THAT(Attend().close, IsEmpty());
  // Its pages come back as those of any other.
  EXPECT_EQ(harness_.inspector().pool().held, PageCount(4));
  EXPECT_TRUE(sequence.Close().ok());
  EXPECT_EQ(harness_.inspector().pool().held, PageCount(0));
}

TEST_F(SteeringTest, OneThatIsToEndDoesNotOutliveItsWorker) {
  WorkerSequence sequence = Run(8, 40);
  ASSERT_TRUE(steering().Close(sequence.id, "").ok());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  EXPECT_EQ(harness_.inspector().pool().sequences, 0U);
  EXPECT_EQ(harness_.inspector().pool().quarantined, PageCount(4));
  EXPECT_EQ(harness_.inspector().pool().given_up, 0U);
}

TEST_F(SteeringTest, AnOrphanEndsAtOnceAndItsPagesStayOutOfUse) {
  WorkerSequence sequence = Run(8, 40);
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  ASSERT_EQ(Info(sequence).state, SequenceState::kOrphaned);
  EXPECT_TRUE(steering().Close(sequence.id, "").ok());
  EXPECT_TRUE(absl::IsNotFound(harness_.inspector().sequence(sequence.id).status()));
  EXPECT_EQ(harness_.inspector().pool().quarantined, PageCount(4));
  harness_.coordinator->ConfirmExited(worker_);
  EXPECT_EQ(harness_.inspector().pool().free, PageCount(20));
}

TEST_F(SteeringTest, ASequenceIsParkedWithoutAShortage) {
  WorkerSequence sequence = Run(8, 40);
  EXPECT_EQ(steering().Park(sequence.id).value(), worker_);
  EXPECT_THAT(harness_.parking().Attend(other_).park, IsEmpty());
  EXPECT_THAT(Attend().park, ElementsAre(sequence.id));
  EXPECT_THAT(Attend().park, IsEmpty());
  ASSERT_TRUE(harness_.parking().Park(worker_, sequence.id, sequence.epoch).ok());
  EXPECT_EQ(Info(sequence).state, SequenceState::kParked);
  const absl::Status again = steering().Park(sequence.id).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(again));
  EXPECT_THAT(again.message(), HasSubstr("parked already"));
  EXPECT_TRUE(harness_.parking().Unpark(worker_, sequence.id, sequence.epoch).ok());
}

TEST_F(SteeringTest, WhatCannotBeParked) {
  WorkerSequence sequence = Run(8, 40);
  EXPECT_TRUE(absl::IsNotFound(steering().Park(SequenceId(99)).status()));
  ASSERT_TRUE(steering().Pin(sequence.id).ok());
  EXPECT_THAT(steering().Park(sequence.id).status().message(), HasSubstr("pinned"));
  ASSERT_TRUE(steering().Unpin(sequence.id).ok());
  ASSERT_TRUE(steering().Close(sequence.id, "").ok());
  EXPECT_THAT(steering().Park(sequence.id).status().message(), HasSubstr("ended it"));
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  EXPECT_TRUE(absl::IsNotFound(steering().Park(sequence.id).status()));
}

TEST_F(SteeringTest, APinnedSequenceIsNotTheVictim) {
  WorkerSequence older = Run(12, 60);
  WorkerSequence younger = Run(12, 48);  // would have to go
  ASSERT_TRUE(steering().Pin(younger.id).ok());
  EXPECT_TRUE(Info(younger).pinned);
  Fill(older);
  Fill(younger);
  EXPECT_THAT(Attend().park, ElementsAre(older.id));
}

TEST_F(SteeringTest, OneThatWasAskedBackAndNotToldIsLeftAlone) {
  WorkerSequence older = Run(12, 60);
  WorkerSequence younger = Run(12, 48);
  Fill(older);
  Fill(younger);
  // Another worker's message makes the choice.
  EXPECT_THAT(harness_.parking().Attend(other_).park, IsEmpty());
  ASSERT_TRUE(steering().Pin(younger.id).ok());
  EXPECT_THAT(Attend().park, ElementsAre(older.id));
}

TEST_F(SteeringTest, PinnedSequencesFitIntoThePoolTogether) {
  WorkerSequence first = Run(8, 40);  // 12 pages
  WorkerSequence second = Run(8, 40);
  ASSERT_TRUE(steering().Pin(first.id).ok());
  const absl::Status status = steering().Pin(second.id).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), HasSubstr("the pool has 20"));
  ASSERT_TRUE(steering().Unpin(first.id).ok());
  EXPECT_TRUE(steering().Pin(second.id).ok());
}

TEST_F(SteeringTest, ThePastPlansTellWhatWasLostAndWhen) {
  WorkerSequence sequence = Run(16, 24, Cache(policy::StreamingLlmSpec(), 8));
  ASSERT_TRUE(sequence.Ack().ok());
  harness_.clock.Advance(absl::Seconds(3));
  for (int token = 0; token < 5 && !sequence.plan.has_value(); ++token) {
    ASSERT_TRUE(sequence.Commit(1).ok());
  }
  ASSERT_TRUE(sequence.Ack().ok());
  const SequenceDetail detail = *harness_.inspector().sequence(sequence.id);
  ASSERT_THAT(detail.plans, SizeIs(2));
  const PastPlan& compaction = detail.plans[0];
  EXPECT_TRUE(compaction.compaction);
  EXPECT_EQ(compaction.logical_length, TokenCount(16));
  ASSERT_THAT(compaction.losses, SizeIs(1));
  EXPECT_EQ(compaction.losses[0].tokens, TokenCount(8));
  EXPECT_EQ(compaction.losses[0].begin, Position(4));
  EXPECT_EQ(compaction.losses[0].end, Position(12));
  const PastPlan& drop = detail.plans[1];
  EXPECT_FALSE(drop.compaction);
  EXPECT_EQ(drop.when - compaction.when, absl::Seconds(3));
  ASSERT_THAT(drop.losses, SizeIs(1));
  EXPECT_EQ(drop.losses[0].tokens, TokenCount(4));
  EXPECT_EQ(drop.losses[0].begin, Position(12));
  EXPECT_EQ(drop.freed, PageCount(1));
  // What is computed again has no past.
  ASSERT_TRUE(harness_.parking().Park(worker_, sequence.id, sequence.epoch).ok());
  EXPECT_THAT(harness_.inspector().sequence(sequence.id)->plans, IsEmpty());
}

TEST_F(SteeringTest, ACensusNamesTheOwnerOfEachPage) {
  WorkerSequence sequence = Run(8, 40, Cache(policy::PagedEvictionSpec(), 16));
  for (const PageRef page : sequence.tables[0]) harness_.Score(page, 0, 8);
  const PageCensus census(*harness_.coordinator);
  const std::vector<PageFacts> pages = census.Count();
  ASSERT_THAT(pages, SizeIs(20));
  uint32_t held = 0;
  for (uint32_t page = 0; page < pages.size(); ++page) {
    if (pages[page].state != PageState::kHeld) continue;
    ++held;
    EXPECT_EQ(pages[page].sequence, sequence.id);
    EXPECT_EQ(pages[page].layer, 0);
    const auto block =
        absl::c_find_if(sequence.tables[0], [&](PageRef one) { return one.page.value() == page; });
    // Its eight tokens fill two pages of four. Those ahead hold what other sequences have left
    // there.
    const bool full = block - sequence.tables[0].begin() < 2;
    EXPECT_EQ(pages[page].scored, full);
    if (!full) continue;
    EXPECT_EQ(census.MeanScore(PageId(page)), 2.0F);  // one of four tokens has a score
  }
  EXPECT_EQ(held, 4U);
  // What is not a number could not be sorted.
  harness_.Score(sequence.tables[0][0], 1, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(census.MeanScore(sequence.tables[0][0].page), -std::numeric_limits<float>::infinity());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  ASSERT_TRUE(steering().Close(sequence.id, "").ok());
  for (const PageFacts& page : census.Count()) {
    EXPECT_NE(page.state, PageState::kHeld);
    EXPECT_EQ(page.sequence, SequenceId(0));
  }
}

}  // namespace
}  // namespace folio::cache
