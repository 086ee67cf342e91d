#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/ops.h"

namespace folio::kernels::cpu {
namespace {

// A pool whose every element says where it was born.
struct TestPool {
  explicit TestPool(uint32_t pages, CacheGeometry geometry) {
    memory.resize(pages * geometry.page_bytes() / sizeof(uint16_t));
    scores.resize(pages * geometry.scores_per_page());
    std::mt19937 random(pages);
    for (uint16_t& value : memory) value = static_cast<uint16_t>(random());
    std::iota(scores.begin(), scores.end(), 1.0f);
    view = {reinterpret_cast<std::byte*>(memory.data()), scores.data(), pages, geometry};
  }
  std::vector<uint16_t> memory;
  std::vector<float> scores;
  PoolView view;
};

// Everything of one slot: K and V of all heads, then scores.
std::vector<float> Slot(const PoolView& view, const std::vector<uint32_t>& table, uint32_t slot) {
  const CacheGeometry& g = view.geometry;
  const uint32_t page = table[slot / g.page_tokens];
  const uint32_t offset = slot % g.page_tokens;
  std::vector<float> all;
  for (uint32_t head = 0; head < g.num_kv_heads; ++head) {
    for (uint32_t d = 0; d < g.head_dim; ++d) {
      const size_t at = (size_t{head} * g.page_tokens + offset) * g.head_dim + d;
      all.push_back(view.keys(page)[at].bits);
      all.push_back(view.values(page)[at].bits);
    }
    if (view.scores) all.push_back(view.page_scores(page)[offset * g.num_kv_heads + head]);
  }
  return all;
}

TEST(CompactLayer, MovesSurvivorsInOrderAndNothingElse) {
  const uint32_t seed = 20240607;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (uint32_t round = 0; round < 60; ++round) {
    const CacheGeometry geometry{.num_layers = 1,
                                 .num_kv_heads = 1 + round % 3,
                                 .head_dim = round % 2 ? 64u : 16u,
                                 .page_tokens = round % 5 ? 16u : 4u};
    TestPool pool(12, geometry);
    std::vector<uint32_t> table{7, 2, 9, 0, 11};
    const uint32_t slots = 5 * geometry.page_tokens - random() % geometry.page_tokens;
    std::vector<uint32_t> keep;
    std::vector<std::vector<float>> want;
    const uint32_t share = round % 4;  // of four; 0 keeps nothing
    for (uint32_t slot = 0; slot < slots; ++slot) {
      if (random() % 4 >= share) continue;
      keep.push_back(slot);
      want.push_back(Slot(pool.view, table, slot));
    }
    const std::vector<uint32_t> other{1, 3, 4, 5, 6, 8, 10};
    std::vector<std::vector<float>> untouched;
    for (uint32_t slot = 0; slot < other.size() * geometry.page_tokens; ++slot) {
      untouched.push_back(Slot(pool.view, other, slot));
    }
    CompactLayer(pool.view, table, keep);
    for (uint32_t i = 0; i < keep.size(); ++i) EXPECT_EQ(Slot(pool.view, table, i), want[i]);
    for (uint32_t slot = 0; slot < untouched.size(); ++slot) {
      EXPECT_EQ(Slot(pool.view, other, slot), untouched[slot]);
    }
  }
}

TEST(CompactLayer, WorksWithoutAScoreBoard) {
  const CacheGeometry geometry{.num_layers = 1, .num_kv_heads = 2, .head_dim = 16};
  TestPool pool(2, geometry);
  pool.view.scores = nullptr;
  const std::vector<uint32_t> table{1, 0};
  const auto want = Slot(pool.view, table, 31);
  CompactLayer(pool.view, table, std::vector<uint32_t>{31});
  EXPECT_EQ(Slot(pool.view, table, 0), want);
}

}  // namespace
}  // namespace folio::kernels::cpu
