// Compaction after the prompt and page drops in decode, in both modes.
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using policy::EvictionMode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EvictTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  WorkerSequence Open(uint32_t prompt, uint32_t max_new, const policy::CacheConfig& cache) {
    return MustOpen(*harness_.coordinator, Request(worker_, prompt, max_new, cache));
  }
  SequenceInfo Info() { return harness_.inspector().sequences().at(0); }
  std::vector<PositionRange> Kept(const WorkerSequence& s, size_t layer) {
    return harness_.inspector().sequence(s.id)->layers[layer].kept;
  }
  static PositionRange Range(uint32_t begin, uint32_t end) {
    return {Position(begin), Position(end)};
  }
  static const CompactAction& Compact(const Outcome& outcome) {
    FOLIO_CHECK(outcome.plan.has_value());
    return std::get<CompactAction>(outcome.plan->action);
  }
  static const DropAction& Drop(const Outcome& outcome) {
    FOLIO_CHECK(outcome.plan.has_value());
    return std::get<DropAction>(outcome.plan->action);
  }
  static PlanEpoch Waiting(const WorkerSequence& s) {
    FOLIO_CHECK(s.plan.has_value());
    return s.plan->epoch;
  }
  // Prefilled and compacted to a budget of 12 tokens, 3 pages.
  WorkerSequence Compacted(uint32_t max_new, EvictionMode mode) {
    WorkerSequence s = Open(18, max_new, Cache(policy::StreamingLlmSpec(), 12, 4, 4, mode));
    FOLIO_CHECK(s.Commit(18).ok() && s.Ack().ok());
    return s;
  }

  Harness harness_;
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
};

TEST_F(EvictTest, CompactsByBothPlanesOfTheBoard) {
  WorkerSequence s = Open(18, 20, Cache(policy::QueryDiffSpec{{0.5F, 1, 1, 2}}, 12, 4, 4));
  // Four slots are free. The prompt asks for 12 and 13. Slots 4 to 8 have equal smoothed scores,
  // and the newer two stay.
  for (uint32_t slot = 0; slot < 18; ++slot) {
    for (const PageList& table : s.tables) {
      harness_.Score(table[slot / 4], slot % 4, slot == 6 ? 5.0F : 0.0F);
      harness_.Score(table[slot / 4], slot % 4, slot == 12 || slot == 13 ? 1.0F : 0.0F, 1);
    }
  }
  const auto outcome = s.Commit(18);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  std::vector<uint32_t> kept;
  for (const TokenSlot slot : Compact(*outcome).keep[1]) kept.push_back(slot.value());
  EXPECT_THAT(kept, ElementsAre(0, 1, 2, 3, 7, 8, 12, 13, 14, 15, 16, 17));
}

TEST_F(EvictTest, CompactsToTheBudgetByScorePerLayer) {
  WorkerSequence s = Open(18, 20, Cache(policy::PagedEvictionSpec(), 12));
  for (uint32_t slot = 0; slot < 18; ++slot) {
    harness_.Score(s.tables[0][slot / 4], slot % 4, slot == 7 ? 0.0F : 1.0F);
    harness_.Score(s.tables[1][slot / 4], slot % 4, static_cast<float>(100 - slot));
  }
  ASSERT_TRUE(s.Commit(10).ok());
  const LayerPageLists opened = s.tables;
  const absl::StatusOr<Outcome> outcome = s.Commit(8);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->granted, IsEmpty());
  const CompactAction& compact = Compact(*outcome);
  const auto slots = [](std::vector<uint32_t> values) {
    return std::vector<TokenSlot>(values.begin(), values.end());
  };
  // Layer 0: ties to the newer. Layer 1: scores fall with age.
  EXPECT_EQ(compact.keep[0], slots({0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(compact.keep[1], slots({0, 1, 2, 3, 4, 5, 6, 7, 14, 15, 16, 17}));
  EXPECT_THAT(compact.spare, ElementsAre(PageCount(2), PageCount(2)));
  EXPECT_EQ(Info().state, SequenceState::kEvicting);
  EXPECT_EQ(Info().resident, TokenCount(18));

  ASSERT_TRUE(s.Ack().ok());
  EXPECT_EQ(Info().state, SequenceState::kDecode);
  EXPECT_EQ(Info().resident, TokenCount(12));
  EXPECT_EQ(Info().evicted_tokens, TokenCount(6));
  EXPECT_EQ(Info().held_pages, PageCount(2 * 5));
  EXPECT_EQ(Info().evicted_pages, PageCount(2));
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(0));
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 4), Range(10, 18)));
  EXPECT_THAT(Kept(s, 1), ElementsAre(Range(0, 8), Range(14, 18)));
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(s.tables[layer], PageList(opened[layer].begin(), opened[layer].begin() + 5));
    EXPECT_EQ(harness_.inspector().sequence(s.id)->layers[layer].pages, s.tables[layer]);
  }
}

TEST_F(EvictTest, SparePagesAreNoMoreThanTheRestNeeds) {
  const std::vector<std::pair<uint32_t, uint32_t>> max_new_and_spare = {
      {0, 0}, {1, 1}, {4, 1}, {5, 2}, {500, 2}};
  for (const auto& [max_new, spare] : max_new_and_spare) {
    WorkerSequence s = Open(13, max_new, Cache(policy::StreamingLlmSpec(), 12));
    const absl::StatusOr<Outcome> outcome = s.Commit(13);
    ASSERT_TRUE(outcome.ok());
    EXPECT_THAT(Compact(*outcome).spare, ElementsAre(PageCount(spare), PageCount(spare)))
        << max_new;
    ASSERT_TRUE(s.Ack().ok());
    EXPECT_EQ(s.tables[0].size(), 3 + spare);
    ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
    ASSERT_TRUE(s.Close().ok());
  }
}

TEST_F(EvictTest, NoCompactionWithinTheBudget) {
  WorkerSequence s = Open(12, 20, Cache(policy::StreamingLlmSpec(), 12));
  const absl::StatusOr<Outcome> outcome = s.Commit(12);
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->plan.has_value());
  EXPECT_EQ(s.tables[0].size(), 5U);
}

TEST_F(EvictTest, DecodeWaitsForCompaction) {
  WorkerSequence s = Open(18, 20, Cache(policy::StreamingLlmSpec(), 12));
  ASSERT_TRUE(s.Commit(18).ok());
  const Snapshot before = Look(*harness_.coordinator);
  const absl::Status status = s.Commit(1).status();
  EXPECT_EQ(status.code(), kRefused);
  EXPECT_THAT(std::string(status.message()), HasSubstr("compaction waits"));
  EXPECT_EQ(Look(*harness_.coordinator), before);
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_TRUE(s.Commit(1).ok());
}

TEST_F(EvictTest, DropsTheLowestPageWhenTheNewestFills) {
  WorkerSequence s = Open(12, 40, Cache(policy::PagedEvictionSpec(), 12));
  ASSERT_TRUE(s.Commit(12).ok());
  for (uint32_t offset = 0; offset < 4; ++offset) {
    for (uint32_t block = 0; block < 4; ++block) {
      harness_.Score(s.tables[0][block], offset, static_cast<float>(block));       // lowest: 1
      harness_.Score(s.tables[1][block], offset, static_cast<float>(10 - block));  // lowest: 2
    }
  }
  ASSERT_TRUE(s.Commit(3).ok());
  EXPECT_FALSE(s.plan.has_value());
  const LayerPageLists held = s.tables;
  const absl::StatusOr<Outcome> filled = s.Commit(1);
  ASSERT_TRUE(filled.ok());
  EXPECT_THAT(Drop(*filled).block, ElementsAre(BlockIndex(1), BlockIndex(2)));
  EXPECT_THAT(filled->granted, IsEmpty());
  const absl::StatusOr<Outcome> acked = s.Ack();
  ASSERT_TRUE(acked.ok());
  EXPECT_FALSE(acked->plan.has_value());
  ASSERT_EQ(acked->granted.size(), 2U);
  EXPECT_EQ(acked->granted[0].size(), 1U);
  // The dropped page comes back as the page ahead, as a new generation.
  EXPECT_GT(acked->granted[1][0].generation, Generation(1));
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 4), Range(8, 16)));
  EXPECT_THAT(Kept(s, 1), ElementsAre(Range(0, 8), Range(12, 16)));
  EXPECT_EQ(Info().evicted_pages, PageCount(2));
  EXPECT_EQ(Info().evicted_tokens, TokenCount(4));
}

TEST_F(EvictTest, PipelinedDecodeGoesOnWhileAPlanWaits) {
  WorkerSequence s = Compacted(40, EvictionMode::kPipelined);
  EXPECT_EQ(s.Room(), 8U);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(s.Commit(1).ok());
  ASSERT_TRUE(s.plan.has_value());
  EXPECT_EQ(Waiting(s), PlanEpoch(2));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(s.Commit(1).ok());
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_FALSE(s.plan.has_value());
  EXPECT_EQ(s.resident[0], 15U);
  EXPECT_EQ(s.Room(), 5U);
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 4), Range(14, 25)));
}

TEST_F(EvictTest, ASecondFillIsPlannedUponAck) {
  WorkerSequence s = Compacted(40, EvictionMode::kPipelined);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(s.Commit(1).ok()) << i;
  EXPECT_EQ(Waiting(s), PlanEpoch(2));
  EXPECT_EQ(s.Room(), 0U);  // two pages over the budget: no more until the plan is done
  EXPECT_EQ(s.resident[0], 20U);
  EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
  const absl::StatusOr<Outcome> acked = s.Ack();
  ASSERT_TRUE(acked.ok());
  ASSERT_TRUE(s.plan.has_value());
  EXPECT_EQ(Waiting(s), PlanEpoch(3));
  EXPECT_THAT(Drop(*acked).block, ElementsAre(BlockIndex(1), BlockIndex(1)));
  EXPECT_EQ(acked->granted[0].size(), 1U);
  EXPECT_EQ(s.Room(), 4U);
  ASSERT_TRUE(s.Commit(1).ok());
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_FALSE(s.plan.has_value());
  EXPECT_EQ(s.resident[0], 13U);
}

TEST_F(EvictTest, SynchronousDecodeWaitsForEachPlan) {
  WorkerSequence s = Compacted(40, EvictionMode::kSynchronous);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(s.Commit(1).ok());
  const absl::Status status = s.Commit(1).status();
  EXPECT_EQ(status.code(), kRefused);
  EXPECT_THAT(std::string(status.message()), HasSubstr("synchronous"));
  ASSERT_TRUE(s.Ack().ok());
  ASSERT_TRUE(s.Commit(1).ok());
}

TEST_F(EvictTest, NothingProtectedMeansAnyFullPageMayGo) {
  WorkerSequence s = Open(4, 40, Cache(policy::PagedEvictionSpec(), 4, 0, 0));
  ASSERT_TRUE(s.Commit(4).ok());
  for (uint32_t offset = 0; offset < 4; ++offset) {
    harness_.Score(s.tables[0][0], offset, 1.0F);
    harness_.Score(s.tables[1][1], offset, 1.0F);
  }
  const absl::StatusOr<Outcome> outcome = s.Commit(4);
  ASSERT_TRUE(outcome.ok());
  EXPECT_THAT(Drop(*outcome).block, ElementsAre(BlockIndex(1), BlockIndex(0)));
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 4)));
  EXPECT_THAT(Kept(s, 1), ElementsAre(Range(4, 8)));
  ASSERT_TRUE(s.Commit(1).ok());
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 4), Range(8, 9)));
}

TEST_F(EvictTest, StaysWithinBudgetAndTwoPagesForever) {
  for (const EvictionMode mode : {EvictionMode::kPipelined, EvictionMode::kSynchronous}) {
    WorkerSequence s = Compacted(500, mode);
    for (int i = 0; i < 400; ++i) {
      ASSERT_TRUE(s.Commit(1).ok()) << i;
      ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
      ASSERT_LE(s.tables[0].size(), 5U);
      if (s.plan.has_value() && (mode == EvictionMode::kSynchronous || s.Room() == 0)) {
        ASSERT_TRUE(s.Ack().ok());
        ASSERT_LE(s.tables[0].size(), 5U);
      }
      ASSERT_GT(s.Room(), 0U);
    }
    ASSERT_TRUE(s.Close().ok());
  }
  EXPECT_EQ(harness_.inspector().pool().free, PageCount(64));
}

TEST_F(EvictTest, ReservationShrinksTowardsTheEnd) {
  WorkerSequence s = Open(6, 20, Cache(policy::StreamingLlmSpec(), 12));
  ASSERT_TRUE(s.Commit(6).ok());
  while (s.logical < 26) {
    ASSERT_TRUE(s.Commit(1).ok());
    if (s.plan.has_value()) {
      ASSERT_TRUE(s.Ack().ok());
    }
    ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
  }
  EXPECT_EQ(s.resident[0], 14U);
  EXPECT_EQ(s.tables[0].size(), 4U);  // 26 tokens, 3 pages dropped, and every page can be filled
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(0));
}

TEST_F(EvictTest, WrongAcknowledgementsChangeNothing) {
  WorkerSequence s = Open(18, 20, Cache(policy::StreamingLlmSpec(), 12));
  EXPECT_THAT(
      std::string(
          Ack(*harness_.coordinator, worker_, {s.id, s.epoch, PlanEpoch(1)}).status().message()),
      HasSubstr("no plan waits, got plan_epoch 1"));
  ASSERT_TRUE(s.Commit(18).ok());
  const Snapshot before = Look(*harness_.coordinator);
  const auto ack = [&](WorkerId worker, SequenceId id, LeaseEpoch lease, PlanEpoch plan) {
    return Ack(*harness_.coordinator, worker, {id, lease, plan}).status();
  };
  const absl::Status wrong_plan = ack(worker_, s.id, s.epoch, PlanEpoch(2));
  EXPECT_EQ(wrong_plan.code(), kRefused);
  EXPECT_THAT(std::string(wrong_plan.message()), HasSubstr("plan_epoch 1 waits, got plan_epoch 2"));
  EXPECT_EQ(ack(worker_, s.id, LeaseEpoch(2), PlanEpoch(1)).code(), kRefused);
  EXPECT_EQ(ack(WorkerId(5), s.id, s.epoch, PlanEpoch(1)).code(), kRefused);
  EXPECT_EQ(ack(worker_, SequenceId(5), s.epoch, PlanEpoch(1)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Look(*harness_.coordinator), before);
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_EQ(ack(worker_, s.id, s.epoch, PlanEpoch(1)).code(), kRefused);
}

TEST_F(EvictTest, CloseWhileAPlanWaits) {
  WorkerSequence s = Open(18, 20, Cache(policy::StreamingLlmSpec(), 12));
  ASSERT_TRUE(s.Commit(18).ok());
  EXPECT_TRUE(s.Close().ok());
  EXPECT_EQ(harness_.inspector().pool().free, PageCount(64));
  EXPECT_EQ(s.Ack().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace folio::cache
