// Differences of unrotated keys on the score board, after steps of the executor.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "services/model/executor/resident_scoring.h"
#include "tests/model/scored_sequence.h"

namespace folio::model::testing {
namespace {

using kernels::ScoreKind;

constexpr uint32_t kPageTokens = 16;  // of ExecutorHarness

Numbers Unrotated(const Numbers& key, uint32_t position) {
  const size_t half = key.size() / 2;
  Numbers before(key.size());
  for (size_t i = 0; i < half; ++i) {
    const double angle =
        position * std::pow(double{TinyConfig().rope_theta},
                            -2.0 * static_cast<double>(i) / static_cast<double>(key.size()));
    before[i] = key[i] * std::cos(angle) + key[half + i] * std::sin(angle);
    before[half + i] = key[half + i] * std::cos(angle) - key[i] * std::sin(angle);
  }
  return before;
}

class ExecutorUnrotatedTest : public ::testing::TestWithParam<std::string> {};

// Of the slots from `first` on, against one key in `stride` behind the first page;
// positions[layer].
void ExpectUnrotated(const Scored& sequence, const std::vector<Tokens>& positions, uint32_t first,
                     uint32_t stride) {
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::vector<float> board = sequence.Board(layer);
    const uint32_t resident = sequence.resident(layer);
    ASSERT_EQ(positions[layer].size(), resident);
    for (uint32_t head = 0; head < kHeads; ++head) {
      const auto before = [&](uint32_t slot) {
        return Unrotated(sequence.Key(layer, head, slot), positions[layer][slot]);
      };
      Numbers mean(before(0).size());
      for (uint32_t slot = kPageTokens - 1 + stride; slot < resident; slot += stride) {
        const Numbers key = before(slot);
        for (size_t i = 0; i < key.size(); ++i) mean[i] += key[i] / Norm(key);
      }
      for (uint32_t slot = first; slot < resident; ++slot) {
        const Numbers key = before(slot);
        double dot = 0;
        for (size_t i = 0; i < key.size(); ++i) dot += key[i] * mean[i];
        ASSERT_NEAR(board[slot * kHeads + head], -dot / Norm(key) / Norm(mean), 1e-5)
            << "layer " << layer << ", head " << head << ", slot " << slot << " of " << resident;
      }
    }
  }
}

// The prompt when it ends, later each page once, when it fills; by positions, not by slots.
TEST_P(ExecutorUnrotatedTest, UnrotatedDifferencesAreOfThePromptAndOfEachPageThatFills) {
  ExecutorHarness harness(GetParam());
  Scored sequence(harness, ScoreKind::kUnrotatedDifference, 8);
  const Tokens prompt = RandomTokens(80, 101, 6);
  harness.Run({sequence.Prompt(prompt, 0, 33)});
  for (const float score : sequence.Board(0)) EXPECT_TRUE(std::isnan(score));
  StepSegment last = sequence.Prompt(prompt, 33, 47);
  last.score_resident = true;
  last.window = {9, 15, 1};
  harness.Run({last});
  std::vector<Tokens> positions(kLayers, Tokens(80));
  for (Tokens& layer : positions) std::iota(layer.begin(), layer.end(), 0u);
  ExpectUnrotated(sequence, positions, 0, 1);

  sequence.Compact(32);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    positions[layer].resize(32);
    for (uint32_t slot = 0; slot < 32; ++slot) positions[layer][slot] = layer + 2 * slot;
  }
  uint32_t next = 80;
  // While a page fills there is nothing to score; when it is full, no other token is scored again.
  const auto fill_a_page = [&] {
    const double scoring = harness.executor().times().score;
    std::vector<std::vector<float>> before;
    for (uint32_t layer = 0; layer < kLayers; ++layer) before.push_back(sequence.Board(layer));
    for (uint32_t i = 0; i < kPageTokens; ++i, ++next) {
      StepSegment step = sequence.Decode(next % 101, next);
      step.score_resident = true;
      harness.Run({step});
      for (Tokens& layer : positions) layer.push_back(next);
      const bool filled = i + 1 == kPageTokens;
      EXPECT_EQ(harness.executor().times().score == scoring, !filled);
    }
    // Behind the first page 32 keys are more than kMaxSamples, so every second one counts.
    ExpectUnrotated(sequence, positions, sequence.resident(0) - kPageTokens, 2);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::vector<float> after = sequence.Board(layer);
      for (uint32_t i = 0; i < 32 * kHeads; ++i) EXPECT_EQ(after[i], before[layer][i]) << i;
    }
  };
  fill_a_page();
  sequence.DropBlocks();  // block 0 of layer 0, block 1 of layer 1
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const auto first = positions[layer].begin() + layer * kPageTokens;
    positions[layer].erase(first, first + kPageTokens);
  }
  sequence.Extend();
  fill_a_page();
}

// Fills so many pages. The last one is scored against one key in `stride` behind the first page.
void ExpectLastPageScored(const std::string& family, uint32_t pages, uint32_t stride) {
  ModelConfig config = TinyConfig();
  config.context = 2048;
  ExecutorHarness harness(family, config);
  Scored sequence(harness, ScoreKind::kUnrotatedDifference, pages);
  const uint32_t end = pages * kPageTokens;
  const Tokens prompt = RandomTokens(end - 1, 101, 6);
  for (uint32_t first = 0; first < end - 1; first += 64) {
    harness.Run({sequence.Prompt(prompt, first, std::min(64U, end - 1 - first))});
  }
  StepSegment step = sequence.Decode(7, end - 1);
  step.score_resident = true;
  harness.Run({step});
  std::vector<Tokens> positions(kLayers, Tokens(end));
  for (Tokens& layer : positions) std::iota(layer.begin(), layer.end(), 0u);
  ExpectUnrotated(sequence, positions, end - kPageTokens, stride);
}

TEST_P(ExecutorUnrotatedTest, OfFewKeysAllAreSampled) { ExpectLastPageScored(GetParam(), 2, 1); }

// A long sequence's page costs no more than a short one's.
TEST_P(ExecutorUnrotatedTest, OfManyKeysEveryNthIsSampled) {
  ExpectLastPageScored(GetParam(), 2 * ResidentScoring::kMaxSamples / kPageTokens + 2, 3);
}

INSTANTIATE_TEST_SUITE_P(Families, ExecutorUnrotatedTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::model::testing
