// Budgets that an operator lowers: how sequences come down to them, and what others get.
#include <algorithm>

#include "tests/cache/budget_fixture.h"

namespace folio::cache {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(BudgetTest, ASequenceComesDownWithItsOwnSteps) {
  WorkerSequence sequence = Run(8, 70, Streaming(48));
  Decode(sequence, 32);  // 40 tokens
  EXPECT_EQ(Info(sequence).held_pages, PageCount(12));
  const auto lowered = Lower(sequence, 15);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->worker, worker_);
  EXPECT_EQ(lowered->cache.budget, TokenCount(16));  // whole pages
  EXPECT_EQ(lowered->over, PageCount(6));
  EXPECT_EQ(Info(sequence).cache.budget, TokenCount(16));
  Check();
  Decode(sequence, 3);
  EXPECT_FALSE(sequence.plan.has_value());  // no page is full yet
  EXPECT_EQ(sequence.resident[0], 43U);
  // From then on each acknowledgement brings the next plan.
  for (uint32_t held = 44 - 3; held > 20; held -= 3) {
    ASSERT_NO_FATAL_FAILURE(Step(sequence));
    ASSERT_TRUE(sequence.plan.has_value());
    ASSERT_LE(sequence.resident[0], held);
  }
  Decode(sequence, 4);
  EXPECT_LT(sequence.resident[0], 20U);
  EXPECT_LE(Info(sequence).held_pages, PageCount(4 + 2));
  EXPECT_FALSE(sequence.plan.has_value());
  const auto plans = harness_.inspector().sequence(sequence.id)->plans;
  ASSERT_THAT(plans, SizeIs(::testing::Ge(7U)));
  EXPECT_EQ(plans[0].logical_length, TokenCount(44));
  // It stays there to its end.
  while (sequence.logical < 78) ASSERT_NO_FATAL_FAILURE(Step(sequence));
  EXPECT_LT(sequence.resident[0], 20U);
}

TEST_F(BudgetTest, OthersGetThePagesThatGo) {
  WorkerSequence large = Run(40, 40, Streaming(64));
  Decode(large, 20);
  const OpenRequest asks = Asking(24, 8, other_);
  EXPECT_TRUE(absl::IsResourceExhausted(harness_.coordinator->Open(asks).status()));
  ASSERT_TRUE(Lower(large, 16).ok());
  Decode(large, 16);
  EXPECT_TRUE(harness_.coordinator->Open(asks).ok());
}

TEST_F(BudgetTest, AWorkerThatIsSlowToAcknowledgeCannotKeepItLarge) {
  WorkerSequence sequence = Run(8, 72, Streaming(48));
  Decode(sequence, 40);
  ASSERT_TRUE(Lower(sequence, 8).ok());
  const uint32_t length = sequence.logical;
  for (int plan = 0; plan < 40 && sequence.logical < 80; ++plan) {
    // All that the pages have room for, and only then the plan.
    if (sequence.Room() > 0) {
      ASSERT_TRUE(sequence.Commit(std::min(sequence.Room(), 80 - sequence.logical)).ok());
    }
    Check();
    ASSERT_TRUE(!sequence.plan.has_value() || sequence.Ack().ok());
    Check();
  }
  EXPECT_GT(sequence.logical, length + 8);
  while (sequence.plan.has_value()) ASSERT_TRUE(sequence.Ack().ok());
  EXPECT_LT(sequence.resident[0], 12U);
}

TEST_F(BudgetTest, WhatIsRefused) {
  WorkerSequence full = Run(8, 8);
  EXPECT_THAT(Lower(full, 16).status().message(), HasSubstr("policy full evicts nothing"));
  EXPECT_EQ(Lower(full, 16).status().code(), kRefused);
  WorkerSequence sequence = Run(8, 8, Streaming(32));
  for (const uint32_t too_low : {0U, 1U, 4U}) {
    const absl::Status status = Lower(sequence, too_low).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("need at least 8"));
  }
  for (const uint32_t no_lower : {29U, 32U, 33U, UINT32_MAX}) {
    const absl::Status status = Lower(sequence, no_lower).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("lowers nothing"));
  }
  ASSERT_TRUE(Steering(*harness_.coordinator).Close(sequence.id, "").ok());
  EXPECT_THAT(Lower(sequence, 16).status().message(), HasSubstr("ended it"));
  ASSERT_TRUE(sequence.Close().ok());
  EXPECT_TRUE(absl::IsNotFound(Lower(sequence, 16).status()));
  WorkerSequence prefill =
      MustOpen(*harness_.coordinator, Asking(20, 8, worker_, 0, Streaming(16)));
  EXPECT_THAT(Lower(prefill, 8).status().message(), HasSubstr("in prefill"));
  ASSERT_TRUE(prefill.Commit(20).ok());
  ASSERT_TRUE(prefill.plan.has_value());  // its compaction waits
  EXPECT_EQ(Lower(prefill, 8).status().code(), kRefused);
  ASSERT_TRUE(prefill.Ack().ok());
  EXPECT_TRUE(Lower(prefill, 8).ok());
}

TEST_F(BudgetTest, SharesOfTheBudgetNeedRoomInTheLowerOne) {
  policy::CacheConfig cache = Cache(policy::PagedEvictionSpec(), 40);
  cache.shares.prompt = 0.5F;
  WorkerSequence sequence = Run(8, 40, cache);
  const TokenCount least = policy::MinBudget(cache, 4);
  const absl::Status low = Lower(sequence, least.value() - 4).status();
  EXPECT_THAT(low.message(), HasSubstr(absl::StrCat("need at least ", least.value())));
  EXPECT_TRUE(Lower(sequence, least.value()).ok());
  Decode(sequence, 40);
  EXPECT_LT(sequence.resident[0], least.value() + 4);
}

TEST_F(BudgetTest, AnOrderBesideAPlanGoesOnFromThere) {
  WorkerSequence sequence = Run(8, 60, Streaming(24));
  while (!sequence.plan.has_value()) ASSERT_TRUE(sequence.Commit(1).ok());
  ASSERT_TRUE(Lower(sequence, 8).ok());
  Check();
  for (int acks = 0; acks < 5; ++acks) {
    ASSERT_TRUE(sequence.plan.has_value()) << acks;
    ASSERT_TRUE(sequence.Ack().ok());
    Check();
  }
  EXPECT_FALSE(sequence.plan.has_value());
  EXPECT_EQ(sequence.resident[0], 8U);
  // And again while it shrinks.
  WorkerSequence other = Run(8, 60, Streaming(28));
  Decode(other, 20);
  ASSERT_TRUE(Lower(other, 16).ok());
  Decode(other, 4);
  ASSERT_TRUE(Lower(other, 8).ok());
  Check();
  Decode(other, 16);
  EXPECT_LT(other.resident[0], 12U);
}

TEST_F(BudgetTest, SynchronousSequencesDecodeBesideThesePlans) {
  WorkerSequence sequence =
      Run(8, 60, Cache(policy::StreamingLlmSpec(), 32, 4, 4, policy::EvictionMode::kSynchronous));
  Decode(sequence, 20);
  ASSERT_TRUE(Lower(sequence, 8).ok());
  Decode(sequence, 4);
  ASSERT_TRUE(sequence.plan.has_value());
  EXPECT_TRUE(sequence.Commit(1).ok());
  Decode(sequence, 12);
  while (!sequence.plan.has_value()) ASSERT_TRUE(sequence.Commit(1).ok());
  EXPECT_LT(sequence.resident[0], 16U);
  // Now a plan stops it again.
  EXPECT_EQ(sequence.Commit(1).status().code(), kRefused);
}

TEST_F(BudgetTest, APinnedSequenceNeedsLess) {
  WorkerSequence first = Run(8, 100, Streaming(40));
  WorkerSequence second = Run(8, 100, Streaming(40));
  Steering steering(*harness_.coordinator);
  ASSERT_TRUE(steering.Pin(first.id).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(steering.Pin(second.id).status()));
  ASSERT_TRUE(Lower(first, 16).ok());
  EXPECT_TRUE(steering.Pin(second.id).ok());
}

TEST(LowerBudget, LayersComeDownEachToItsOwn) {
  Harness harness({.pages = 100, .layers = 3});
  const WorkerId worker = harness.coordinator->AddWorker("w");
  policy::CacheConfig cache = Streaming(40);
  cache.layer_budgets = {TokenCount(40), TokenCount(12), TokenCount(24)};
  WorkerSequence sequence = MustOpen(*harness.coordinator, Request(worker, 8, 80, cache));
  ASSERT_TRUE(sequence.Commit(8).ok());
  const auto decode = [&](int tokens) {
    for (int token = 0; token < tokens; ++token) {
      ASSERT_TRUE(sequence.Commit(1).ok());
      ASSERT_TRUE(!sequence.plan.has_value() || sequence.Ack().ok());
      ASSERT_EQ(harness.inspector().CheckInvariants(), absl::OkStatus());
    }
  };
  decode(32);
  const PageCount reserved = harness.inspector().pool().reserved;
  const auto lowered = Steering(*harness.coordinator).LowerBudget(sequence.id, TokenCount(16));
  ASSERT_TRUE(lowered.ok());
  EXPECT_THAT(lowered->cache.layer_budgets,
              ElementsAre(TokenCount(16), TokenCount(12), TokenCount(16)));
  EXPECT_EQ(lowered->cache.budget, TokenCount(16));
  EXPECT_EQ(lowered->over, PageCount(6 + 2));
  EXPECT_LE(harness.inspector().pool().reserved, reserved);
  decode(20);
  for (size_t layer = 0; layer < 3; ++layer) EXPECT_LT(sequence.resident[layer], 20U) << layer;
  EXPECT_EQ(harness.inspector().pool().reserved, PageCount(0));
  EXPECT_LE(harness.inspector().pool().held, PageCount(6 + 5 + 6));
}

TEST(LowerBudget, PagesThatWereReservedAreFreeAtOnce) {
  Harness harness({.pages = 40, .layers = 1});
  const WorkerId worker = harness.coordinator->AddWorker("w");
  WorkerSequence sequence = MustOpen(*harness.coordinator, Request(worker, 8, 152, Streaming(144)));
  ASSERT_TRUE(sequence.Commit(8).ok());
  EXPECT_EQ(harness.inspector().pool().reserved, PageCount(38 - 4));
  ASSERT_TRUE(Steering(*harness.coordinator).LowerBudget(sequence.id, TokenCount(16)).ok());
  EXPECT_EQ(harness.inspector().pool().reserved, PageCount(6 - 4));
  EXPECT_EQ(harness.inspector().CheckInvariants(), absl::OkStatus());
}

TEST(LowerBudget, ADryRunTellsTheNextBlockAndNotACompaction) {
  Harness harness({.layers = 2});
  const WorkerId worker = harness.coordinator->AddWorker("w");
  policy::CacheConfig cache = Cache(policy::PagedEvictionSpec(), 40);
  cache.layers = policy::Layers::kShared;
  WorkerSequence sequence = MustOpen(*harness.coordinator, Request(worker, 8, 40, cache));
  ASSERT_TRUE(sequence.Commit(8).ok());
  for (int token = 0; token < 24; ++token) ASSERT_TRUE(sequence.Commit(1).ok());
  ASSERT_TRUE(Steering(*harness.coordinator).LowerBudget(sequence.id, TokenCount(8)).ok());
  const auto explained = harness.inspector().Explain(sequence.id, std::nullopt);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_TRUE(explained->due);
  EXPECT_EQ(explained->cache.budget, TokenCount(8));
  for (const ExplainedLayer& layer : explained->layers) {
    EXPECT_THAT(layer.drop, IsEmpty());
    EXPECT_TRUE(layer.block.has_value());
  }
  while (!sequence.plan.has_value()) ASSERT_TRUE(sequence.Commit(1).ok());
  while (sequence.plan.has_value()) ASSERT_TRUE(sequence.Ack().ok());
  EXPECT_THAT(sequence.resident, Each(8U));
}

}  // namespace
}  // namespace folio::cache
