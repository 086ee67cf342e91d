// Prompts that are compacted while they are prefilled.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StreamedTest : public ::testing::Test {
 protected:
  // 2 layers of 64 / 2 pages of 4 tokens: 128 tokens a layer.
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  static policy::CacheConfig Streamed(const policy::PolicySpec& policy, uint32_t budget,
                                      uint32_t stride) {
    policy::CacheConfig cache = Cache(policy, budget);
    cache.compaction = policy::Compaction::kStreamed;
    cache.compaction_stride = TokenCount(stride);
    return cache;
  }
  OpenRequest Ask(uint32_t prompt, const policy::CacheConfig& cache, uint32_t max_new = 20) const {
    OpenRequest request = Request(worker_, prompt, max_new, cache);
    request.abilities = {.prefill_ahead = {}, .parks = true, .streams = true};
    return request;
  }
  WorkerSequence Open(uint32_t prompt, const policy::CacheConfig& cache) {
    return MustOpen(*harness_.coordinator, Ask(prompt, cache));
  }
  std::vector<PositionRange> Kept(const WorkerSequence& s, size_t layer) {
    return harness_.inspector().sequence(s.id)->layers[layer].kept;
  }
  uint32_t Held() { return harness_.inspector().pool().held.value(); }

  Harness harness_;
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
};

TEST_F(StreamedTest, APromptLargerThanThePoolIsPrefilled) {
  constexpr uint32_t kPrompt = 1001;
  constexpr uint32_t kStride = 16;
  WorkerSequence s = Open(kPrompt, Streamed(policy::StreamingLlmSpec(), 32, kStride));
  uint32_t compactions = 0;
  while (s.logical < kPrompt) {
    const auto outcome = s.Commit(std::min(kStride, kPrompt - s.logical));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    // Budget and stride of both layers, and the page ahead.
    ASSERT_LE(Held(), 2 * ((32 + kStride) / 4 + 1));
    ASSERT_EQ(s.plan.has_value(), s.logical > 32) << s.logical;
    if (!s.plan.has_value()) continue;
    ++compactions;
    ASSERT_TRUE(s.Ack().ok());
    ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
  }
  EXPECT_EQ(compactions, 61U);  // at 48, 64, ..., 992 and at the end
  EXPECT_THAT(Kept(s, 1), ElementsAre(PositionRange{Position(0), Position(4)},
                                      PositionRange{Position(973), Position(1001)}));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(s.Commit(1).ok());
    if (s.plan.has_value()) {
      ASSERT_TRUE(s.Ack().ok());
    }
  }
  EXPECT_TRUE(s.Close().ok());
}

TEST_F(StreamedTest, ChoosesByTheScoresOfWhatIsLeft) {
  WorkerSequence s = Open(40, Streamed(policy::PagedEvictionSpec(), 12, 8));
  const auto feed = [&](uint32_t best) {
    for (uint32_t slot = s.resident[0]; slot < s.resident[0] + 8; ++slot) {
      const uint32_t position = s.logical + slot - s.resident[0];
      for (const PageList& table : s.tables) {
        harness_.Score(table[slot / 4], slot % 4, position == best ? 9.0F : 1.0F);
      }
    }
    ASSERT_TRUE(s.Commit(8).ok());
  };
  feed(5);
  EXPECT_FALSE(s.plan.has_value());  // 8 tokens are within the budget
  feed(10);
  ASSERT_TRUE(s.plan.has_value());  // 16 are not
  ASSERT_TRUE(s.Ack().ok());
  // The sink, the two best, two of the newest others, and the most recent.
  EXPECT_THAT(Kept(s, 0), ElementsAre(PositionRange{Position(0), Position(4)},
                                      PositionRange{Position(5), Position(6)},
                                      PositionRange{Position(9), Position(16)}));
}

TEST_F(StreamedTest, AChunkEndsAtTheStopAndWaitsThere) {
  WorkerSequence s = Open(40, Streamed(policy::StreamingLlmSpec(), 12, 16));
  const Snapshot before = Look(*harness_.coordinator);
  const auto past = s.Send(s.Next(17, 4));
  EXPECT_EQ(past.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(past.status().message(), HasSubstr("runs past 16, where the prompt is compacted"));
  EXPECT_EQ(Look(*harness_.coordinator), before);
  ASSERT_TRUE(s.Commit(10).ok());
  EXPECT_FALSE(s.plan.has_value());
  ASSERT_TRUE(s.Commit(6).ok());
  ASSERT_TRUE(s.plan.has_value());
  const auto beside = s.Send(s.Next(1, 4));
  EXPECT_THAT(beside.status().message(), HasSubstr("its compaction waits"));
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_EQ(s.resident[0], 12U);
  EXPECT_GE(s.Room(), 16U);
  EXPECT_TRUE(s.Commit(16).ok());
}

TEST_F(StreamedTest, GrantsNoMoreThanTheWorkerNeedsAtATime) {
  OpenRequest request = Ask(60, Streamed(policy::StreamingLlmSpec(), 12, 32));
  request.abilities.prefill_ahead = TokenCount(8);
  WorkerSequence s = MustOpen(*harness_.coordinator, request);
  EXPECT_EQ(s.tables[0].size(), 2U);
  ASSERT_TRUE(s.Commit(8).ok());
  EXPECT_EQ(s.tables[0].size(), 4U);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(s.Commit(8).ok());
  EXPECT_EQ(s.tables[0].size(), 8U);
  ASSERT_TRUE(s.plan.has_value());
  // The pages of the survivors and of the next chunk stay, and the others are free.
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_EQ(s.tables[0].size(), 5U);
  EXPECT_EQ(Held(), 10U);
}

TEST_F(StreamedTest, LayersAreCompactedByTheirOwnBudgets) {
  policy::CacheConfig cache = Streamed(policy::StreamingLlmSpec(), 24, 16);
  cache.layer_budgets = {TokenCount(24), TokenCount(12)};
  WorkerSequence s = Open(48, cache);
  ASSERT_TRUE(s.Commit(16).ok());
  ASSERT_TRUE(s.plan.has_value());
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(s.resident, ElementsAre(16, 12));
  ASSERT_TRUE(s.Commit(16).ok());
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(s.resident, ElementsAre(24, 12));
  ASSERT_TRUE(s.Commit(16).ok());
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(s.resident, ElementsAre(24, 12));
  EXPECT_TRUE(s.Commit(1).ok());
}

TEST_F(StreamedTest, IsChosenForAPromptThatThePoolCannotHold) {
  const auto chosen = [&](uint32_t prompt, const policy::PolicySpec& policy, bool streams) {
    policy::CacheConfig cache = Streamed(policy, 32, 16);
    cache.compaction = policy::Compaction::kAutomatic;
    OpenRequest request = Ask(prompt, cache);
    request.abilities.streams = streams;
    absl::StatusOr<Opened> opened = harness_.coordinator->Open(request);
    if (!opened.ok()) return opened.status().ToString();
    const bool streamed = opened->cache.compaction == policy::Compaction::kStreamed;
    EXPECT_TRUE(harness_.coordinator->Close(worker_, opened->sequence, opened->lease_epoch).ok());
    return std::string(streamed ? "streamed" : "whole");
  };
  // 124 tokens and a page ahead fill the pool.
  EXPECT_EQ(chosen(124, policy::PagedEvictionSpec(), true), "whole");
  EXPECT_EQ(chosen(125, policy::PagedEvictionSpec(), true), "streamed");
  EXPECT_THAT(chosen(125, policy::PagedEvictionSpec(), false),
              HasSubstr("choose compaction streamed"));
  EXPECT_THAT(chosen(125, policy::SnapKvSpec{4, 1}, true),
              HasSubstr("is held whole until its end"));
}

TEST_F(StreamedTest, RefusesWhatCannotStream) {
  const auto refusal = [&](OpenRequest request) {
    return harness_.coordinator->Open(std::move(request)).status().ToString();
  };
  EXPECT_THAT(refusal(Ask(60, Streamed(policy::SnapKvSpec{4, 1}, 32, 16))),
              HasSubstr("INVALID_ARGUMENT: compaction streamed does not go with policy snap_kv"));
  EXPECT_THAT(refusal(Ask(60, Streamed(policy::PagedEvictionSpec(), 32, 10))),
              HasSubstr("compaction_stride_tokens 10 is not a multiple of the page size 4"));
  EXPECT_THAT(refusal(Ask(60, Streamed(policy::PagedEvictionSpec(), 32, 0))),
              HasSubstr("compaction_stride_tokens is 0"));
  OpenRequest old = Ask(60, Streamed(policy::PagedEvictionSpec(), 32, 16));
  old.abilities.streams = false;
  EXPECT_THAT(refusal(old), HasSubstr("FAILED_PRECONDITION: compaction streamed needs a worker"));
}

TEST_F(StreamedTest, AParkedSequenceMakesTheSameStopsAgain) {
  WorkerSequence s = Open(40, Streamed(policy::StreamingLlmSpec(), 12, 16));
  ASSERT_TRUE(s.Commit(16).ok());
  ASSERT_TRUE(s.Ack().ok());
  ASSERT_TRUE(s.Commit(4).ok());
  ASSERT_TRUE(harness_.parking().Park(worker_, s.id, s.epoch).ok());
  EXPECT_EQ(Held(), 0U);
  const auto again = harness_.parking().Unpark(worker_, s.id, s.epoch);
  ASSERT_TRUE(again.ok()) << again.status();
  s.tables = again->pages;
  s.resident = {0, 0};
  s.logical = 0;
  ASSERT_TRUE(s.Commit(16).ok());
  ASSERT_TRUE(s.plan.has_value());
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(Kept(s, 0), ElementsAre(PositionRange{Position(0), Position(4)},
                                      PositionRange{Position(8), Position(16)}));
}

}  // namespace
}  // namespace folio::cache
