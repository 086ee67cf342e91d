// Tokens that are counted 64 at a time are those of the definition in kv_crush.h.
#include "services/policy/crush_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "services/policy/head_order.h"
#include "services/policy/key_search.h"
#include "services/policy/signature.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

// The definition, token by token: those of the `lowest` that no representative stands for.
std::vector<uint32_t> ByDefinition(const LayerScores& scores, uint32_t begin,
                                   const std::vector<float>& token_scores, uint32_t lowest,
                                   uint32_t reps, CrushAnchor anchor, uint64_t seed) {
  const auto count = static_cast<uint32_t>(token_scores.size());
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(SortKey(token_scores[a]), a) < std::tuple(SortKey(token_scores[b]), b);
  });
  std::vector<uint32_t> candidates(order.begin(), order.begin() + lowest);
  std::sort(candidates.begin(), candidates.end());
  HeadOrder heads;
  heads.Append(scores, begin, begin + count);
  const Signatures bits = RankSignatures(heads, {0, count, 1, candidates});
  const auto ones = [&](uint32_t bit) {
    uint64_t sum = 0;
    for (uint32_t item = 0; item < lowest; ++item) sum += bits.Get(item, bit) ? 1 : 0;
    return sum;
  };
  const std::vector<bool> point = AnchorBits(anchor, seed, scores.kv_heads, 1, lowest, ones);
  std::vector<std::pair<uint32_t, uint32_t>> sorted;  // (distance, candidate)
  for (uint32_t item = 0; item < lowest; ++item) {
    uint32_t distance = 0;
    for (uint32_t bit = 0; bit < bits.bits(); ++bit) distance += bits.Get(item, bit) != point[bit];
    sorted.emplace_back(distance, item);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<bool> stays(lowest);
  for (uint64_t i = 0; i < reps; ++i) {
    stays[sorted[reps == 1 ? 0 : i * (lowest - 1) / (reps - 1)].second] = true;
  }
  std::vector<uint32_t> go;
  for (uint32_t item = 0; item < lowest; ++item) {
    if (!stays[item]) go.push_back(candidates[item]);
  }
  return go;
}

TEST(UnrepresentedTokens, AgreeWithTheDefinition) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 600; ++round) {
    const uint32_t tokens = 2 + random() % 400;
    const uint32_t heads = round % 3 == 0 ? 8 : 1 + random() % 20;
    std::vector<std::vector<float>> rows(tokens, std::vector<float>(heads));
    for (auto& row : rows) {
      for (float& score : row) {
        const uint32_t kind = random() % 60;
        const auto value = static_cast<float>(random() % (round % 2 == 0 ? 5 : 100000));
        score = kind == 0 ? NAN : kind == 1 ? std::numeric_limits<float>::infinity() : value;
      }
    }
    const ScoreTable table(rows, 1 + random() % 20);
    const uint32_t begin = random() % (tokens - 1);
    const uint32_t count = 1 + random() % (tokens - begin);
    std::vector<float> token_scores(count);
    for (float& score : token_scores) score = static_cast<float>(random() % 50);
    const uint32_t lowest = 1 + random() % count;
    const uint32_t reps = random() % (lowest + 1);
    const auto anchor = static_cast<CrushAnchor>(round % 5);
    std::vector<uint32_t> got;
    ForEachBit(UnrepresentedTokens(table.view(), begin, token_scores, lowest, reps, anchor, round),
               [&](uint32_t i) { got.push_back(i); });
    EXPECT_EQ(got, ByDefinition(table.view(), begin, token_scores, lowest, reps, anchor, round))
        << "round " << round << ", " << reps << " of " << lowest << " of " << count;
  }
}

}  // namespace
}  // namespace folio::policy
