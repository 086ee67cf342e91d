// Parked sequences whose pages are copied to swap memory, and go on without being computed again.
#include <algorithm>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/cache/swap_space.h"
#include "tests/cache/optimistic_fixture.h"

namespace folio::cache {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr WorkerAbilities kSwaps = {.prefill_ahead = TokenCount(0), .parks = true, .swaps = true};

TEST(SwapSpace, GivesSlotsOutOnceAndTakesThemBack) {
  SwapSpace space(4);
  std::optional<SwapSlots> first = space.Take(3);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(space.Take(2).has_value());
  first->Truncate(1);
  std::optional<SwapSlots> second = space.Take(3);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(space.CheckInvariants({&*first, &*second}), absl::OkStatus());
  EXPECT_FALSE(space.CheckInvariants({&*second}).ok());
  second->Quarantine(WorkerId(7));
  first.reset();
  EXPECT_EQ(space.free(), 1U);
  EXPECT_EQ(space.quarantined(), 3U);
  space.EndQuarantine(WorkerId(8));
  EXPECT_EQ(space.free(), 1U);
  space.EndQuarantine(WorkerId(7));
  EXPECT_EQ(space.free(), 4U);
  EXPECT_EQ(space.CheckInvariants({}), absl::OkStatus());
}

class SwapTest : public OptimisticTest {
 protected:
  SwapTest() : OptimisticTest(kSwaps, /*swap_slots=*/12) {}

  // Opens one that comes first and one that is asked back for it, whose offer this returns.
  std::vector<SwapSlot> AskBack(uint32_t second_prompt = 24) {
    first_.emplace(Run(24, 40));
    second_.emplace(Run(second_prompt, 40));
    Fill(*second_);
    Fill(*first_);
    const Attention attention = Attend();
    EXPECT_THAT(attention.park, ::testing::ElementsAre(second_->id));
    return attention.swap.empty() ? std::vector<SwapSlot>() : attention.swap[0].slots;
  }
  bool Park(bool swapped = true) {
    const auto kept =
        harness_.parking().Park(second_->worker, second_->id, second_->epoch, swapped);
    EXPECT_TRUE(kept.ok()) << kept.status();
    return kept.value_or(false);
  }
  absl::StatusOr<Unparked> Unpark() {
    return harness_.parking().Unpark(second_->worker, second_->id, second_->epoch);
  }
  absl::StatusOr<Claimed> Claim(const WorkerAbilities& abilities = kSwaps) {
    return harness_.coordinator->Claim({other_, second_->id, "token", abilities});
  }
  uint32_t FreeSlots() { return harness_.inspector().pool().free_swap_slots; }
  SequenceInfo Info() { return OptimisticTest::Info(*second_); }

  std::optional<WorkerSequence> first_, second_;
};

TEST_F(SwapTest, ASwappedSequenceGoesOnWhereItWas) {
  const std::vector<SwapSlot> offered = AskBack();
  const uint32_t length = second_->logical;
  EXPECT_EQ(offered.size(), second_->tables[0].size());
  ASSERT_TRUE(Park());
  EXPECT_EQ(Info().held_pages, PageCount(0));
  EXPECT_EQ(Info().logical_length, TokenCount(length));
  EXPECT_EQ(Info().state, SequenceState::kParked);
  EXPECT_EQ(FreeSlots(), 12 - Info().swap_slots);
  ASSERT_TRUE(first_->Close().ok());
  const absl::StatusOr<Unparked> again = Unpark();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->logical_length, TokenCount(length));
  ASSERT_THAT(again->swapped, SizeIs(1));
  const LayerTableInfo& table = again->swapped[0];
  EXPECT_EQ(table.resident, TokenCount(length));
  EXPECT_THAT(table.slots, SizeIs((length + 3) / 4));
  EXPECT_TRUE(std::equal(table.slots.begin(), table.slots.end(), offered.begin()));
  EXPECT_GT(table.pages.size(), table.slots.size());  // and the page ahead
  // The slots stay as they are until the worker says that it has copied them.
  EXPECT_EQ(FreeSlots(), 12 - table.slots.size());
  second_->tables[0] = table.pages;
  ASSERT_TRUE(second_->Commit(1).ok());
  EXPECT_EQ(FreeSlots(), 12U);
  EXPECT_EQ(second_->known, length + 2);
}

TEST_F(SwapTest, WithoutRoomForAllPagesItIsComputedAgain) {
  first_.emplace(Run(16, 40));
  second_.emplace(Run(24, 40));
  Fill(*second_);
  Fill(*first_);
  ASSERT_GT(second_->tables[0].size(), 12U);
  const Attention attention = harness_.parking().Attend(worker_);
  ASSERT_THAT(attention.park, ::testing::ElementsAre(second_->id));
  EXPECT_THAT(attention.swap, IsEmpty());
  EXPECT_FALSE(Park());
  EXPECT_EQ(Info().logical_length, TokenCount(0));
}

TEST_F(SwapTest, AWorkerThatDidNotCopyGivesTheSlotsBack) {
  AskBack();
  EXPECT_LT(FreeSlots(), 12U);
  EXPECT_FALSE(Park(/*swapped=*/false));
  EXPECT_EQ(FreeSlots(), 12U);
  EXPECT_EQ(Info().logical_length, TokenCount(0));
}

TEST_F(SwapTest, CopiesThatWereNotOfferedDoNotCount) {
  second_.emplace(Run(24, 8));
  EXPECT_FALSE(Park());
  EXPECT_EQ(Info().logical_length, TokenCount(0));
}

TEST_F(SwapTest, AClosedSequenceLeavesNoSlots) {
  AskBack();
  ASSERT_TRUE(Park());
  EXPECT_TRUE(absl::IsFailedPrecondition(second_->Commit(1).status()));
  ASSERT_TRUE(second_->Close().ok());
  EXPECT_EQ(FreeSlots(), 12U);
}

TEST_F(SwapTest, APlanThatWaitsIsGivenAgain) {
  first_.emplace(Run(24, 40));
  second_.emplace(Run(16, 40, Cache(policy::PagedEvictionSpec(), 16)));
  while (!second_->plan.has_value()) ASSERT_TRUE(second_->Commit(1).ok());
  const PlanEpoch epoch = second_->plan->epoch;
  Fill(*first_);
  ASSERT_THAT(harness_.parking().Attend(worker_).swap, SizeIs(1));
  ASSERT_TRUE(Park());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Ack(*harness_.coordinator, worker_, {second_->id, second_->epoch, epoch}).status()));
  ASSERT_TRUE(first_->Close().ok());
  const absl::StatusOr<Unparked> again = Unpark();
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(again->plan.has_value());
  EXPECT_EQ(again->plan->epoch, epoch);
  EXPECT_EQ(again->swapped[0].resident, TokenCount(second_->resident[0]));
  second_->tables[0] = again->swapped[0].pages;
  ASSERT_TRUE(second_->Ack().ok());
  EXPECT_EQ(FreeSlots(), 12U);
  ASSERT_TRUE(second_->Commit(1).ok());
}

TEST_F(SwapTest, AnotherWorkerGoesOnFromTheSlots) {
  AskBack();
  const uint32_t length = second_->logical;
  ASSERT_TRUE(Park());
  ASSERT_TRUE(first_->Close().ok());
  // The lost process may still run. It writes neither pages nor slots of this sequence any more.
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  const absl::StatusOr<Claimed> claimed = Claim();
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(length));
  EXPECT_THAT(claimed->layers[0].slots, SizeIs((length + 3) / 4));
  EXPECT_EQ(FreeSlots(), 12 - claimed->layers[0].slots.size());
}

TEST_F(SwapTest, AWorkerThatCannotSwapComputesItAgain) {
  AskBack();
  ASSERT_TRUE(Park());
  ASSERT_TRUE(first_->Close().ok());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/true);
  const absl::StatusOr<Claimed> claimed = Claim(kParks);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(0));
  EXPECT_THAT(claimed->layers[0].slots, IsEmpty());
  EXPECT_EQ(FreeSlots(), 12U);
}

TEST_F(SwapTest, AWorkerLostWhileItCopiesOutLeavesThePages) {
  AskBack();
  const uint32_t length = second_->logical;
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  EXPECT_TRUE(absl::IsUnavailable(Claim().status()));
  EXPECT_LT(FreeSlots(), 12U);  // that process could still write them
  harness_.coordinator->ConfirmExited(worker_);
  const absl::StatusOr<Claimed> claimed = Claim();
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(length));
  EXPECT_EQ(claimed->layers[0].pages.size(), second_->tables[0].size());
  EXPECT_THAT(claimed->layers[0].slots, IsEmpty());
  EXPECT_EQ(FreeSlots(), 12U);
}

TEST_F(SwapTest, AWorkerLostWhileItCopiesBackLeavesTheSlots) {
  AskBack();
  const uint32_t length = second_->logical;
  ASSERT_TRUE(Park());
  ASSERT_TRUE(first_->Close().ok());
  ASSERT_TRUE(Unpark().ok());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  EXPECT_GT(Info().held_pages, PageCount(0));  // that process could still write them
  EXPECT_TRUE(absl::IsUnavailable(Claim().status()));
  harness_.coordinator->ConfirmExited(worker_);
  EXPECT_EQ(Info().held_pages, PageCount(0));
  const absl::StatusOr<Claimed> claimed = Claim();
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(length));
  EXPECT_THAT(claimed->layers[0].slots, SizeIs((length + 3) / 4));
}

TEST_F(SwapTest, SlotsThatALostProcessCouldWriteAreQuarantined) {
  OpenRequest request = Asking(24, 40, worker_);
  request.metadata.resume_token.clear();
  first_.emplace(Run(24, 40));
  second_.emplace(MustOpen(*harness_.coordinator, request));
  ASSERT_TRUE(second_->Commit(24).ok());
  Fill(*second_);
  Fill(*first_);
  ASSERT_THAT(harness_.parking().Attend(worker_).swap, SizeIs(1));
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  EXPECT_GT(harness_.inspector().pool().quarantined_swap_slots, 0U);
  harness_.coordinator->ConfirmExited(worker_);
  EXPECT_EQ(FreeSlots(), 12U);
}

TEST_F(SwapTest, WhatIsInSwapMemoryCannotBeExplained) {
  AskBack();
  ASSERT_TRUE(Park());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(harness_.inspector().Explain(second_->id, std::nullopt).status()));
}

}  // namespace
}  // namespace folio::cache
