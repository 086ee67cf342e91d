// What crush_tokens.h and crush_blocks.h choose is what the definition in kv_crush.h says.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "services/policy/crush_blocks.h"
#include "services/policy/crush_tokens.h"
#include "services/policy/key_search.h"
#include "services/policy/kv_crush.h"
#include "tests/policy/head_order.h"
#include "tests/policy/score_table.h"
#include "tests/policy/signature.h"

namespace folio::policy {
namespace {

// The definition, item by item of `item_tokens` each: those of the `lowest` that do not stay as
// representatives.
std::vector<uint32_t> Unrepresented(const LayerScores& scores, uint32_t first_token,
                                    const std::vector<float>& item_scores, uint32_t item_tokens,
                                    uint32_t lowest, uint32_t reps, CrushAnchor anchor,
                                    uint64_t seed) {
  const auto count = static_cast<uint32_t>(item_scores.size());
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(SortKey(item_scores[a]), a) < std::tuple(SortKey(item_scores[b]), b);
  });
  std::vector<uint32_t> candidates(order.begin(), order.begin() + lowest);
  std::sort(candidates.begin(), candidates.end());
  HeadOrder heads;
  heads.Append(scores, first_token, first_token + count * item_tokens);
  const Signatures bits = RankSignatures(heads, {0, count * item_tokens, item_tokens, candidates});
  const auto ones = [&](uint32_t bit) {
    uint64_t sum = 0;
    for (uint32_t item = 0; item < lowest; ++item) sum += bits.Get(item, bit) ? 1 : 0;
    return sum;
  };
  const std::vector<bool> point =
      AnchorBits(anchor, seed, scores.kv_heads, item_tokens, lowest, ones);
  Signatures anchor_bits(1, bits.bits());
  for (uint32_t bit = 0; bit < bits.bits(); ++bit) {
    if (point[bit]) anchor_bits.Set(0, bit);
  }
  std::vector<std::pair<uint32_t, uint32_t>> sorted;  // (distance, candidate)
  for (uint32_t item = 0; item < lowest; ++item) {
    sorted.emplace_back(bits.Distance(item, anchor_bits), item);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> entries(lowest);
  std::iota(entries.begin(), entries.end(), 0);
  std::vector<bool> stays(lowest);
  for (const uint32_t entry : EvenlySpaced(entries, reps)) stays[sorted[entry].second] = true;
  std::vector<uint32_t> go;
  for (uint32_t item = 0; item < lowest; ++item) {
    if (!stays[item]) go.push_back(candidates[item]);
  }
  return go;
}

// Rows of scores, many of them equal if `coarse`, and some no number.
std::vector<std::vector<float>> RandomRows(std::mt19937& random, uint32_t tokens, uint32_t heads,
                                           bool coarse) {
  std::vector<std::vector<float>> rows(tokens, std::vector<float>(heads));
  for (auto& row : rows) {
    for (float& score : row) {
      const uint32_t kind = random() % 60;
      const auto value = static_cast<float>(random() % (coarse ? 5 : 100000));
      score = kind == 0 ? NAN : kind == 1 ? std::numeric_limits<float>::infinity() : value;
    }
  }
  return rows;
}

// Some layers with the same tokens, and one layer that has the heads of all of them.
struct Layers {
  Layers(std::mt19937& random, uint32_t count, uint32_t tokens, uint32_t heads, bool coarse,
         uint32_t page) {
    std::vector<std::vector<float>> all(tokens);
    for (uint32_t layer = 0; layer < count; ++layer) {
      const auto rows = RandomRows(random, tokens, heads, coarse);
      for (uint32_t token = 0; token < tokens; ++token) {
        all[token].insert(all[token].end(), rows[token].begin(), rows[token].end());
      }
      tables.push_back(std::make_unique<ScoreTable>(rows, page));
      views.push_back(tables.back()->view());
    }
    together = std::make_unique<ScoreTable>(all, page);
  }

  std::vector<std::unique_ptr<ScoreTable>> tables;
  std::vector<LayerScores> views;
  std::unique_ptr<ScoreTable> together;
};

TEST(RepresentedTokens, AreThoseOfTheDefinition) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 600; ++round) {
    const uint32_t tokens = 2 + random() % 400;
    const uint32_t heads = round % 3 == 0 ? 8 : 1 + random() % 20;
    const uint32_t page = 1 + random() % 20;
    const Layers layers(random, 1 + round % 4 / 3 * 2, tokens, heads, round % 2 == 0, page);
    const uint32_t begin = random() % (tokens - 1);
    const uint32_t count = 1 + random() % (tokens - begin);
    std::vector<float> token_scores(count);
    for (float& score : token_scores) score = static_cast<float>(random() % 50);
    const uint32_t lowest = 1 + random() % count;
    const uint32_t reps = random() % (lowest + 1);
    const auto anchor = static_cast<CrushAnchor>(round % 5);
    std::vector<uint32_t> stay;
    ForEachBit(RepresentedTokens(layers.views, begin, token_scores, lowest, reps, anchor, round),
               [&](uint32_t i) { stay.push_back(i); });
    std::vector<uint32_t> go(count);
    std::iota(go.begin(), go.end(), 0);
    std::erase_if(go, [&](uint32_t i) { return std::binary_search(stay.begin(), stay.end(), i); });
    EXPECT_EQ(go, Unrepresented(layers.together->view(), begin, token_scores, 1, lowest, reps,
                                anchor, round))
        << "round " << round << ", " << reps << " of " << lowest << " of " << count;
  }
}

TEST(UnrepresentedBlock, IsThatOfTheDefinition) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    const uint32_t page = round % 2 == 0 ? 16 : 1 + random() % 70;
    const uint32_t heads = round % 3 == 0 ? 8 : 1 + random() % 9;
    const uint32_t blocks = 2 + random() % 30;
    const Layers layers(random, 1 + round % 4 / 3 * 2, blocks * page, heads, round % 4 < 2, page);
    std::vector<KeptScores> kept(layers.views.size());
    const KvCrush policy(std::make_shared<PagedEviction>(), {});
    for (size_t layer = 0; layer < kept.size(); ++layer) {
      kept[layer].Update(policy, layers.views[layer]);
    }
    std::vector<float> block_scores(blocks);
    for (float& score : block_scores) score = static_cast<float>(random() % 12);
    BlockRange range;
    range.begin = random() % (blocks - 1);
    range.end = range.begin + 1 + random() % (blocks - range.begin);
    const uint32_t unprotected = range.end - range.begin;
    const uint32_t reps = random() % unprotected;
    const auto anchor = static_cast<CrushAnchor>(round % 5);
    const std::vector<float> own(block_scores.begin() + range.begin,
                                 block_scores.begin() + range.end);
    const std::vector<uint32_t> expected = Unrepresented(
        layers.together->view(), range.begin * page, own, page, reps + 1, reps, anchor, round);
    const BlockIndex block =
        UnrepresentedBlock(absl::MakeSpan(kept), block_scores, range, page, reps, anchor, round);
    ASSERT_EQ(expected.size(), 1U);
    EXPECT_EQ(block.value(), range.begin + expected[0])
        << "round " << round << ", " << reps << " of " << unprotected << " blocks of " << page;
  }
}

}  // namespace
}  // namespace folio::policy
