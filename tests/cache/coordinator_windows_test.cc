// Layers that attend to a window of latest tokens: their pages behind it are free at once, and
// budgets are for the other layers. tests/fuzz moves windows in random lives.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Layers 0 and 2 of 3 attend to 8 tokens, which are two pages.
LayerWindows Windows() {
  LayerWindows windows(8, 4);
  windows.Add(0);
  windows.Add(2);
  return windows;
}

class WindowsTest : public ::testing::TestWithParam<Admission> {
 protected:
  void TearDown() override {
    EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
    EXPECT_EQ(harness_.journal.error(), absl::OkStatus());
  }
  static WorkerAbilities Chunks(uint32_t tokens) {
    return {.prefill_ahead = TokenCount(tokens), .parks = true, .streams = true, .swaps = true};
  }
  OpenRequest Ask(uint32_t prompt, const policy::CacheConfig& cache = FullCache(),
                  uint32_t chunk = 8) const {
    OpenRequest request = Request(worker_, prompt, 40, cache);
    request.metadata.resume_token = "secret";
    request.abilities = Chunks(chunk);
    return request;
  }
  WorkerSequence Open(uint32_t prompt, const policy::CacheConfig& cache = FullCache(),
                      uint32_t chunk = 8) {
    WorkerSequence sequence = MustOpen(*harness_.coordinator, Ask(prompt, cache, chunk));
    sequence.windows = Windows();
    return sequence;
  }
  void Prefill(WorkerSequence& sequence, uint32_t chunk = 8) {
    while (sequence.logical < sequence.prompt) {
      ASSERT_TRUE(sequence.Commit(std::min(chunk, sequence.prompt - sequence.logical)).ok());
      ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
    }
  }
  SequenceDetail Look(SequenceId id) { return *harness_.inspector().sequence(id); }
  std::vector<PositionRange> Kept(SequenceId id, size_t layer) {
    return Look(id).layers[layer].kept;
  }
  static PositionRange Range(uint32_t begin, uint32_t end) {
    return {Position(begin), Position(end)};
  }
  uint32_t Free() { return harness_.inspector().pool().free.value(); }

  Harness harness_{{.pages = 64,
                    .layers = 3,
                    .orphan_ttl = absl::Seconds(30),
                    .admission = GetParam(),
                    .swap_slots = 32,
                    .windows = Windows()}};
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
};

TEST_P(WindowsTest, PagesBehindAreFreeAtOnceInPrefillAndDecode) {
  WorkerSequence s = Open(40);
  Prefill(s);
  EXPECT_THAT(Kept(s.id, 0), ElementsAre(Range(32, 40)));
  EXPECT_THAT(Kept(s.id, 1), ElementsAre(Range(0, 40)));
  EXPECT_THAT(Kept(s.id, 2), ElementsAre(Range(32, 40)));
  EXPECT_EQ(Look(s.id).info.pages_behind, PageCount(16));
  EXPECT_EQ(Look(s.id).info.evicted_tokens, TokenCount(0));
  for (uint32_t length = 41; length <= 80; ++length) {
    ASSERT_TRUE(s.Commit(1).ok());
    const uint32_t first = length / 4 * 4 - 8;
    ASSERT_THAT(Kept(s.id, 0), ElementsAre(Range(first, length)));
    // Its pages and one ahead.
    ASSERT_LE(Look(s.id).layers[0].pages.size(), 4U);
    for (size_t layer = 0; layer < 3; ++layer) {
      ASSERT_EQ(Look(s.id).layers[layer].pages, s.tables[layer]) << length;
    }
  }
  EXPECT_TRUE(s.Close().ok());
  EXPECT_EQ(Free(), 64U);
}

TEST_P(WindowsTest, APromptLongerThanThePoolWouldHoldWithoutThemIsServed) {
  // 200 tokens are 50 pages of layer 1, and 14 are left for the other two.
  OpenRequest request = Ask(196, FullCache(), 4);
  request.max_new_tokens = TokenCount(4);
  WorkerSequence s = MustOpen(*harness_.coordinator, request);
  s.windows = Windows();
  Prefill(s, 4);
  EXPECT_EQ(Look(s.id).info.pages_behind, PageCount(2 * 47));
  const auto whole = harness_.coordinator->Open(Ask(196, FullCache(), 0));
  EXPECT_THAT(whole.status().message(), HasSubstr("never fits"));
}

TEST_P(WindowsTest, BudgetsAreForTheOtherLayers) {
  WorkerSequence s = Open(24, Cache(policy::StreamingLlmSpec(), 12));
  Prefill(s);
  ASSERT_TRUE(s.plan.has_value());
  const CompactAction& compact = std::get<CompactAction>(s.plan->action);
  EXPECT_EQ(compact.keep[0].size(), 8U);  // all that it has
  EXPECT_EQ(compact.keep[1].size(), 12U);
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(Kept(s.id, 0), ElementsAre(Range(16, 24)));
  EXPECT_THAT(Kept(s.id, 1), ElementsAre(Range(0, 4), Range(16, 24)));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(s.Commit(1).ok());
    if (!s.plan.has_value()) continue;
    const DropAction& drop = std::get<DropAction>(s.plan->action);
    EXPECT_FALSE(drop.block[0].has_value() || drop.block[2].has_value());
    EXPECT_TRUE(drop.block[1].has_value());
    ASSERT_TRUE(s.Ack().ok());
  }
  EXPECT_THAT(Kept(s.id, 2), ElementsAre(Range(36, 44)));
  EXPECT_EQ(Look(s.id).info.evicted_tokens, TokenCount(32));
  const auto explained = harness_.inspector().Explain(s.id, Cache(policy::StreamingLlmSpec(), 8));
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_FALSE(explained->layers[0].block.has_value());
}

TEST_P(WindowsTest, AWindowAboveTheBudgetKeepsItsTokens) {
  WorkerSequence s = Open(24, Cache(policy::StreamingLlmSpec(), 4, 0, 4));
  Prefill(s);
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(Kept(s.id, 0), ElementsAre(Range(16, 24)));
  EXPECT_THAT(Kept(s.id, 1), ElementsAre(Range(20, 24)));
}

// A worker knows the budgets of layers and not their windows, so it waits for a plan here.
TEST_P(WindowsTest, OnlyWindowedLayersOverTheirBudgetsGetAPlanThatKeepsAll) {
  policy::CacheConfig cache = Cache(policy::StreamingLlmSpec(), 32, 0, 4);
  cache.layer_budgets = {TokenCount(4), TokenCount(32), TokenCount(32)};
  WorkerSequence s = Open(16, cache);
  Prefill(s);
  ASSERT_TRUE(s.plan.has_value());
  const CompactAction& compact = std::get<CompactAction>(s.plan->action);
  EXPECT_EQ(compact.keep[0].size(), 8U);
  EXPECT_EQ(compact.keep[1].size(), 16U);
  ASSERT_TRUE(s.Ack().ok());
  ASSERT_TRUE(s.Commit(1).ok());
}

TEST_P(WindowsTest, LayersCannotDecideTogether) {
  policy::CacheConfig cache = Cache(policy::KeyDiffSpec(), 12);
  cache.layers = policy::Layers::kShared;
  const auto opened = harness_.coordinator->Open(Ask(24, cache));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(opened.status().message(), HasSubstr("layers shared"));
}

TEST_P(WindowsTest, AClaimHasTheTablesAsTheyAre) {
  WorkerSequence s = Open(24);
  Prefill(s);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(s.Commit(1).ok());
  for (const bool restart : {false, true}) {
    if (restart) {
      (void)harness_.Restart({});
    } else {
      harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
      harness_.coordinator->ConfirmExited(worker_);
    }
    const WorkerId next = harness_.coordinator->AddWorker("next");
    const auto claimed = harness_.coordinator->Claim(
        {.worker = next, .sequence = s.id, .resume_token = "secret", .abilities = Chunks(8)});
    ASSERT_TRUE(claimed.ok()) << claimed.status();
    EXPECT_EQ(claimed->logical_length, TokenCount(30));
    for (size_t layer = 0; layer < 3; ++layer) {
      EXPECT_EQ(claimed->layers[layer].pages, s.tables[layer]);
    }
    EXPECT_THAT(claimed->layers[2].kept, ElementsAre(Range(20, 30)));
    worker_ = next;
  }
}

TEST_P(WindowsTest, AWorkerWithLongerChunksComputesAPromptAgain) {
  WorkerSequence s = Open(60);
  ASSERT_TRUE(s.Commit(8).ok());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/false);
  harness_.coordinator->ConfirmExited(worker_);
  const WorkerId next = harness_.coordinator->AddWorker("next");
  const auto claimed = harness_.coordinator->Claim(
      {.worker = next, .sequence = s.id, .resume_token = "secret", .abilities = Chunks(32)});
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->logical_length, TokenCount(0));
  EXPECT_EQ(claimed->layers[0].pages.size(), 8U);
}

INSTANTIATE_TEST_SUITE_P(Admissions, WindowsTest,
                         ::testing::Values(Admission::kReserve, Admission::kOptimistic),
                         [](const auto& info) {
                           return info.param == Admission::kReserve ? "reserve" : "optimistic";
                         });

}  // namespace
}  // namespace folio::cache
