// Layers that decide together.
#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The scores of layer 1 are those of layer 0 read backwards, so that alone they would keep others.
// Two layers of pages of four tokens; sink and recent one page each.
class SharedLayersTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  WorkerSequence Open(uint32_t prompt, uint32_t max_new, const policy::CacheConfig& cache) {
    return MustOpen(*harness_.coordinator, Request(worker_, prompt, max_new, cache));
  }
  std::vector<PositionRange> Kept(const WorkerSequence& s, size_t layer) {
    return harness_.inspector().sequence(s.id)->layers[layer].kept;
  }
  static PositionRange Range(uint32_t begin, uint32_t end) {
    return {Position(begin), Position(end)};
  }
  static policy::CacheConfig Shared(uint32_t budget) {
    policy::CacheConfig cache = Cache(policy::PagedEvictionSpec(), budget);
    cache.layers = policy::Layers::kShared;
    return cache;
  }
  // Position p has the score |p - 10| in layer 0 and 100 * |p - 13| in layer 1.
  void Score(const WorkerSequence& s, uint32_t position) {
    const auto distance = [&](int from) {
      return static_cast<float>(std::abs(static_cast<int>(position) - from));
    };
    harness_.Score(s.tables[0][position / 4], position % 4, distance(10));
    harness_.Score(s.tables[1][position / 4], position % 4, 100 * distance(13));
  }

  Harness harness_;
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
};

TEST_F(SharedLayersTest, KeepTheSameTokensOfThePromptAndDropTheSameBlock) {
  WorkerSequence s = Open(24, 30, Shared(16));
  for (uint32_t position = 0; position < 24; ++position) Score(s, position);
  absl::StatusOr<Outcome> outcome = s.Commit(24);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto& compact = std::get<CompactAction>(outcome->plan->action);
  EXPECT_EQ(compact.keep[0], compact.keep[1]);
  ASSERT_TRUE(s.Ack().ok());
  // Between the protected pages 8 tokens stay, and the sums are lowest from 8 to 15.
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 8), Range(16, 24)));
  EXPECT_EQ(Kept(s, 1), Kept(s, 0));
  while (!outcome->plan.has_value() || outcome->plan->epoch == PlanEpoch(1)) {
    outcome = s.Commit(1);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
  }
  const auto& drop = std::get<DropAction>(outcome->plan->action);
  EXPECT_TRUE(drop.block[0].has_value());
  EXPECT_EQ(drop.block[1], drop.block[0]);
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_EQ(Kept(s, 1), Kept(s, 0));
}

TEST_F(SharedLayersTest, TheJudgesDecideForAll) {
  for (const bool last : {false, true}) {
    policy::QueryDiff::Options options = {.share = 0, .window = 1, .pool = 1, .neighbours = 0};
    options.judges = last ? policy::Depth{0.5F, 1} : policy::Depth{0, 0.5F};
    policy::CacheConfig cache = Cache(policy::QueryDiffSpec{options}, 16);
    cache.layers = policy::Layers::kShared;
    WorkerSequence s = Open(24, 30, cache);
    for (uint32_t position = 0; position < 24; ++position) Score(s, position);
    absl::StatusOr<Outcome> outcome = s.Commit(24);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_TRUE(s.Ack().ok());
    // Eight go around the judge's lowest, position 10 or 13, and of equals the older.
    const uint32_t gone = last ? 9 : 6;
    EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, gone), Range(gone + 8, 24)));
    EXPECT_EQ(Kept(s, 1), Kept(s, 0));
    for (uint32_t slot = 0; slot < 16; ++slot) {
      for (const uint32_t layer : {0U, 1U}) {
        const bool lowest = slot / 4 == 1 + layer;
        harness_.Score(s.tables[layer][slot / 4], slot % 4, lowest ? 0.0F : 1.0F);
      }
    }
    while (!outcome->plan.has_value() || outcome->plan->epoch == PlanEpoch(1)) {
      outcome = s.Commit(1);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
    }
    const auto& drop = std::get<DropAction>(outcome->plan->action);
    EXPECT_EQ(drop.block[0], BlockIndex(last ? 2 : 1));
    EXPECT_EQ(drop.block[1], drop.block[0]);
    ASSERT_TRUE(s.Ack().ok());
    const auto explained = harness_.inspector().Explain(s.id, std::nullopt);
    ASSERT_TRUE(explained.ok()) << explained.status();
    EXPECT_EQ(explained->layers[0].scores.empty(), last);
    EXPECT_EQ(explained->layers[1].scores.empty(), !last);
    cache.layers = policy::Layers::kPerLayer;
    const std::string judges = absl::StrCat("in layers ", last, " to ", last, " alone");
    EXPECT_THAT(std::string(harness_.inspector().Explain(s.id, cache).status().message()),
                HasSubstr(judges));
    ASSERT_TRUE(s.Close().ok());
  }
}

// So a worker need not score the others.
TEST_F(SharedLayersTest, AWorkerIsToldWhoseScoresAreRead) {
  const auto scored = [&](policy::Depth judges, policy::Layers layers) {
    policy::QueryDiff::Options options = {.share = 0, .window = 1, .pool = 1};
    options.judges = judges;
    policy::CacheConfig cache = Cache(policy::QueryDiffSpec{options}, 16);
    cache.layers = layers;
    const auto opened = harness_.coordinator->Open(Request(worker_, 24, 30, cache));
    FOLIO_CHECK(opened.ok());
    return opened->scored_layers;
  };
  EXPECT_EQ(scored({0.5F, 1}, policy::Layers::kShared), (LayerRange{1, 2}));
  EXPECT_EQ(scored({0, 0.5F}, policy::Layers::kShared), (LayerRange{0, 1}));
  EXPECT_EQ(scored({0, 0.5F}, policy::Layers::kPerLayer), (LayerRange{0, 2}));
}

TEST_F(SharedLayersTest, ADryRunShowsTheCommonChoice) {
  WorkerSequence s = Open(24, 30, Shared(24));
  for (uint32_t position = 0; position < 24; ++position) Score(s, position);
  ASSERT_TRUE(s.Commit(24).ok());
  const auto explained = harness_.inspector().Explain(s.id, Shared(16));
  ASSERT_TRUE(explained.ok()) << explained.status();
  for (const ExplainedLayer& layer : explained->layers) {
    EXPECT_THAT(layer.drop, ElementsAre(Range(8, 16)));
    EXPECT_EQ(layer.scores.size(), 24U);
  }
  EXPECT_NE(explained->layers[0].scores, explained->layers[1].scores);
}

TEST_F(SharedLayersTest, ADryRunNeedsLayersWithTheSameTokens) {
  policy::CacheConfig uneven = Cache(policy::StreamingLlmSpec(), 24);
  uneven.layer_budgets = {TokenCount(12), TokenCount(24)};
  WorkerSequence s = Open(18, 30, uneven);
  ASSERT_TRUE(s.Commit(18).ok());
  ASSERT_TRUE(s.Ack().ok());
  policy::CacheConfig shared = Cache(policy::StreamingLlmSpec(), 12);
  shared.layers = policy::Layers::kShared;
  EXPECT_THAT(std::string(harness_.inspector().Explain(s.id, shared).status().message()),
              HasSubstr("its layers hold different tokens"));
}

}  // namespace
}  // namespace folio::cache
