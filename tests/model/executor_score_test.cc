// What the score board holds after steps of the executor.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"
#include "tests/model/scored_sequence.h"

namespace folio::model::testing {
namespace {

using kernels::ScoreKind;

void ExpectKeyDifferences(const Scored& sequence) {
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::vector<float> board = sequence.Board(layer);
    const uint32_t resident = sequence.resident(layer);
    for (uint32_t head = 0; head < kHeads; ++head) {
      Numbers mean(sequence.Key(layer, head, 0).size());
      for (uint32_t slot = 0; slot < resident; ++slot) {
        const Numbers key = sequence.Key(layer, head, slot);
        for (size_t i = 0; i < key.size(); ++i) mean[i] += key[i] / Norm(key) / resident;
      }
      for (uint32_t slot = 0; slot < resident; ++slot) {
        const Numbers key = sequence.Key(layer, head, slot);
        double dot = 0;
        for (size_t i = 0; i < key.size(); ++i) dot += key[i] * mean[i];
        ASSERT_NEAR(board[slot * kHeads + head], -dot / Norm(key) / Norm(mean), 1e-5)
            << "layer " << layer << ", head " << head << ", slot " << slot << " of " << resident;
      }
    }
  }
}

bool Unscored(float score) { return std::isnan(score); }

class ExecutorScoreTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ExecutorScoreTest, InverseKeyNormsAreThereAsSoonAsTheToken) {
  ExecutorHarness harness(GetParam());
  const Scored sequence(harness, ScoreKind::kInverseKeyNorm, 3);
  const Tokens prompt = RandomTokens(20, 101, 1);
  harness.Run({sequence.Prompt(prompt, 0, 13)});
  harness.Run({sequence.Prompt(prompt, 13, 7)});
  harness.Run({sequence.Decode(5, 20)});
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::vector<float> board = sequence.Board(layer);
    for (uint32_t i = 0; i < board.size(); ++i) {
      if (i >= 21 * kHeads) {
        EXPECT_TRUE(Unscored(board[i]));
        continue;
      }
      const double want = 1 / Norm(sequence.Key(layer, i % kHeads, i / kHeads));
      EXPECT_NEAR(board[i], want, 1e-6 * want);
    }
  }
  EXPECT_EQ(harness.executor().times().score, 0);
}

TEST_P(ExecutorScoreTest, KeyDifferencesAreOfAllResidentTokensWhenAskedFor) {
  ExecutorHarness harness(GetParam());
  Scored sequence(harness, ScoreKind::kKeyDifference, 8);
  const Scored other(harness, ScoreKind::kKeyDifference, 8);
  const Tokens prompt = RandomTokens(80, 101, 2);
  harness.Run({sequence.Prompt(prompt, 0, 33)});
  harness.Run({sequence.Prompt(prompt, 33, 30), other.Prompt(prompt, 0, 20)});
  for (const float score : sequence.Board(0)) EXPECT_TRUE(Unscored(score));
  StepSegment last = sequence.Prompt(prompt, 63, 17);
  last.score_resident = true;
  harness.Run({other.Prompt(prompt, 20, 20), last});
  ExpectKeyDifferences(sequence);
  for (const float score : other.Board(1)) EXPECT_TRUE(Unscored(score));

  // Survivors take their scores along; the next refresh is of them alone.
  const std::vector<float> before = sequence.Board(1);
  sequence.Compact(30);
  const std::vector<float> after = sequence.Board(1);
  for (uint32_t i = 0; i < 30 * kHeads; ++i) {
    EXPECT_EQ(after[i], before[(1 + 2 * (i / kHeads)) * kHeads + i % kHeads]);
  }
  harness.Run({sequence.Decode(7, 80)});
  EXPECT_EQ(sequence.Board(1)[5], after[5]);
  StepSegment refresh = sequence.Decode(9, 81);
  refresh.score_resident = true;
  StepSegment third = other.Prompt(prompt, 40, 3);
  third.score_resident = true;
  harness.Run({refresh, third});
  ExpectKeyDifferences(sequence);
  ExpectKeyDifferences(other);

  sequence.DropBlocks();
  EXPECT_EQ(sequence.resident(0), 16u);
  refresh = sequence.Decode(11, 82);
  refresh.score_resident = true;
  harness.Run({refresh});
  ExpectKeyDifferences(sequence);
  EXPECT_GT(harness.executor().times().score, 0);
}

// Sum of distances over the sum of what is wanted.
double RelativeDistance(const std::vector<float>& board, const NaiveModel& naive, uint32_t layer,
                        uint32_t rows) {
  double distance = 0;
  double total = 0;
  for (uint32_t head = 0; head < kHeads; ++head) {
    const Numbers mass = naive.WindowMass(layer, head, rows);
    for (size_t slot = 0; slot < mass.size(); ++slot) {
      distance += std::abs(board[slot * kHeads + head] - mass[slot]);
      total += mass[slot];
    }
  }
  return distance / total;
}

TEST_P(ExecutorScoreTest, TheWindowOfAPromptScoresAllOfIt) {
  ExecutorHarness harness(GetParam());
  const Tokens prompt = RandomTokens(150, 101, 3);
  NaiveModel naive(harness.model());
  for (const uint32_t token : prompt) naive.Feed(token);
  const Scored sequence(harness, ScoreKind::kWindowAttention, 12);
  harness.Run({sequence.Prompt(prompt, 0, 64)});
  harness.Run({sequence.Prompt(prompt, 64, 41)});
  for (const float score : sequence.Board(0)) EXPECT_TRUE(Unscored(score));
  EXPECT_EQ(harness.executor().times().score, 0);
  StepSegment last = sequence.Prompt(prompt, 105, 45);
  last.window = {20, 3, 0};
  harness.Run({last});
  EXPECT_GT(harness.executor().times().score, 0);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    // Fast families round the queries, and in layer 1 what came before them.
    const double tolerance = GetParam() == "plain" ? 0.002 : 0.05;
    EXPECT_LT(RelativeDistance(sequence.Board(layer), naive, layer, 20), tolerance) << layer;
    EXPECT_TRUE(Unscored(sequence.Board(layer)[150 * kHeads]));
  }
}

// A sequence whose layers decide together is judged by few of them.
TEST_P(ExecutorScoreTest, OtherLayersThanTheWantedAreNotScored) {
  ExecutorHarness harness(GetParam());
  const Tokens prompt = RandomTokens(48, 101, 5);
  const auto run = [&](ScoreKind kind, LayerRange wanted) {
    Scored sequence(harness, kind, 4);
    StepSegment all = sequence.Prompt(prompt, 0, 47);
    all.scored_layers = wanted;
    all.score_resident = WrittenOnDemand(kind);
    if (kind != ScoreKind::kKeyDifference) {
      all.window = {9, 3, kind == ScoreKind::kWindowAttention ? 0U : 1U};
    }
    StepSegment fills = sequence.Decode(5, 47);
    fills.scored_layers = wanted;
    fills.score_resident = WrittenOnDemand(kind);
    harness.Run({all});
    harness.Run({fills});
    std::vector<std::vector<float>> boards;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (const uint32_t channel : {0U, 1U}) boards.push_back(sequence.Board(layer, channel));
    }
    return boards;
  };
  for (const ScoreKind kind :
       {ScoreKind::kWindowAttention, ScoreKind::kKeyDifference, ScoreKind::kUnrotatedDifference}) {
    const auto both = run(kind, kAllLayers);
    for (const uint32_t only : {0U, 1U}) {
      const auto boards = run(kind, {only, only + 1});
      for (uint32_t i = 0; i < boards.size(); ++i) {
        const auto unscored = std::count_if(boards[i].begin(), boards[i].end(), Unscored);
        if (i / 2 == only) {
          EXPECT_EQ(unscored, std::count_if(both[i].begin(), both[i].end(), Unscored));
          EXPECT_EQ(std::memcmp(boards[i].data(), both[i].data(), both[i].size() * sizeof(float)),
                    0);
        } else {
          EXPECT_EQ(unscored, boards[i].size()) << "layer " << i / 2 << ", channel " << i % 2;
        }
      }
    }
  }
}

// Neither the chunks nor who else is in the step, nor the number of threads.
TEST_P(ExecutorScoreTest, NothingElseChangesAScore) {
  const Tokens prompt = RandomTokens(150, 101, 4);
  const auto run = [&](const std::vector<uint32_t>& chunks, int threads, bool with_others) {
    ExecutorHarness harness(GetParam(), TinyConfig(), threads);
    const Scored window(harness, ScoreKind::kWindowAttention, 11);
    const Scored keys(harness, ScoreKind::kKeyDifference, 11);
    const Scored others(harness, ScoreKind::kWindowAttention, 11);
    uint32_t first = 0;
    for (const uint32_t chunk : chunks) {
      const bool ends = first + chunk == prompt.size();
      std::vector<StepSegment> step;
      if (with_others) {
        step.push_back(others.Prompt(prompt, first, std::min(chunk, 30u)));
        step.back().window = {std::min(chunk, 3u), 3, 0};
      }
      step.push_back(window.Prompt(prompt, first, chunk));
      step.back().window = {ends ? 33U : 0, 3, 0};
      harness.Run(step);
      step = {keys.Prompt(prompt, first, chunk)};
      step.back().score_resident = ends;
      harness.Run(step);
      first += chunk;
    }
    std::vector<float> board;
    for (const auto& part : {window.Board(0), window.Board(1), keys.Board(0), keys.Board(1)}) {
      board.insert(board.end(), part.begin(), part.end());
    }
    // What nobody wrote is no number, and no number equals itself.
    for (float& score : board) score = Unscored(score) ? -1 : score;
    return board;
  };
  const std::vector<float> want = run({150}, 1, false);
  EXPECT_EQ(run({150}, 3, false), want);
  EXPECT_EQ(run({64, 86}, 2, true), want);
  EXPECT_EQ(run({1, 7, 100, 9, 33}, 2, true), want);
}

using ExecutorScoreDeathTest = ExecutorScoreTest;

TEST_P(ExecutorScoreDeathTest, MisuseIsCaught) {
  ExecutorHarness harness(GetParam(), TinyConfig(), 1);
  const Tokens prompt = RandomTokens(10, 101, 5);
  const Scored window(harness, ScoreKind::kWindowAttention, 1);
  const Scored keys(harness, ScoreKind::kKeyDifference, 1);
  StepSegment segment = window.Prompt(prompt, 0, 10);
  segment.window = {11, 3, 0};  // more than its rows
  EXPECT_DEATH(harness.Run({segment}), "check failed");
  segment = window.Decode(1, 0);
  segment.window = {1, 3, 0};
  EXPECT_DEATH(harness.Run({segment}), "check failed");
  segment = keys.Prompt(prompt, 0, 10);
  segment.window = {1, 3, 2};  // no such channel
  EXPECT_DEATH(harness.Run({segment}), "check failed");
  segment.window = {1, 3, 0};  // the keys' own
  EXPECT_DEATH(harness.Run({segment}), "check failed");
  segment = window.Prompt(prompt, 0, 10);
  segment.score_resident = true;
  EXPECT_DEATH(harness.Run({segment}), "check failed");
}

INSTANTIATE_TEST_SUITE_P(Families, ExecutorScoreTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Families, ExecutorScoreDeathTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::model::testing
