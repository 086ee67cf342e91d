// Halves that follow one block after another are those of a full sort.
#include "services/policy/upper_halves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "services/policy/key_search.h"

namespace folio::policy {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The blocks of one layer.
class Blocks {
 public:
  Blocks(uint32_t page_tokens, uint32_t heads, uint64_t seed)
      : page_tokens_(page_tokens), heads_(heads), random_(seed) {}

  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  uint32_t count() const { return static_cast<uint32_t>(pages_.size()); }

  // Adds a block whose scores lie around `level`, many of them equal if `coarse`.
  void Add(UpperHalves& halves, float level, bool coarse) {
    auto& page = pages_.emplace_back(size_t{page_tokens_} * heads_);
    for (float& score : page) {
      const uint32_t kind = Pick(80);
      const float value = static_cast<float>(Pick(coarse ? 4 : 100000)) * (coarse ? 1 : 1e-5F);
      score = kind == 0 ? NAN : kind == 1 ? kInf : kind == 2 ? -kInf : level + value;
    }
    const float* row = page.data();
    halves.Append({.pages = {&row, 1},
                   .page_tokens = page_tokens_,
                   .kv_heads = heads_,
                   .tokens = TokenCount(page_tokens_),
                   .scored = TokenCount(page_tokens_)});
  }
  void Erase(UpperHalves& halves, uint32_t block) {
    pages_.erase(pages_.begin() + block);
    halves.Erase(BlockIndex(block));
  }

  void ExpectRanked(UpperHalves& halves, uint32_t begin, uint32_t end) {
    halves.Rank(begin, end);
    const uint32_t tokens = (end - begin) * page_tokens_;
    for (uint32_t head = 0; head < heads_; ++head) {
      std::vector<std::pair<int32_t, uint32_t>> order;
      for (uint32_t i = 0; i < tokens; ++i) {
        const std::vector<float>& page = pages_[begin + i / page_tokens_];
        order.emplace_back(SortKey(page[size_t{i % page_tokens_} * heads_ + head]), i);
      }
      std::sort(order.rbegin(), order.rend());
      for (uint32_t place = 0; place < tokens; ++place) {
        const uint32_t i = order[place].second;
        const uint32_t bit = head * halves.width() + i % page_tokens_;
        const auto words = halves.bits(BlockIndex(begin + i / page_tokens_));
        ASSERT_EQ(words[bit / 64] >> bit % 64 & 1, place < tokens / 2 ? 1U : 0U)
            << "head " << head << " token " << i << " of " << tokens;
      }
    }
  }

 private:
  const uint32_t page_tokens_;
  const uint32_t heads_;
  std::mt19937_64 random_;
  std::vector<std::vector<float>> pages_;
};

// A long decode with pages of any size. The level drifts, so that the middle leaves its window.
TEST(UpperHalves, FollowOneBlockAfterAnother) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 shapes(seed);
  for (int layer = 0; layer < 24; ++layer) {
    constexpr uint32_t kPages[] = {1, 3, 8, 16, 48, 64, 65, 130};
    const uint32_t page_tokens = kPages[layer % 8];
    Blocks blocks(page_tokens, 1 + shapes() % 9, shapes());
    UpperHalves halves;
    const uint32_t sink = layer % 3;
    const uint32_t recent = layer / 3 % 3;
    const bool coarse = layer % 4 == 3;
    float level = 0;
    for (int i = 0; i < 12; ++i) blocks.Add(halves, level, coarse);
    for (int round = 0; round < 40; ++round) {
      level += static_cast<float>(blocks.Pick(5)) * (layer % 2 == 0 ? 0.02F : 0);
      for (uint32_t more = 1 + blocks.Pick(10) / 9; more > 0; --more) {
        blocks.Add(halves, level, coarse);
      }
      SCOPED_TRACE(testing::Message() << "layer " << layer << " round " << round);
      blocks.ExpectRanked(halves, sink, blocks.count() - recent);
      if (HasFatalFailure()) return;
      // Mostly one of the range, at times a protected one, at times none.
      const uint32_t kind = blocks.Pick(12);
      if (kind == 0) continue;
      const uint32_t unprotected = blocks.count() - sink - recent;
      blocks.Erase(halves,
                   kind == 1 ? blocks.Pick(blocks.count()) : sink + blocks.Pick(unprotected));
    }
  }
}

TEST(UpperHalves, RankAnyRange) {
  Blocks blocks(4, 3, 7);
  UpperHalves halves;
  for (int i = 0; i < 20; ++i) blocks.Add(halves, 0, i % 2 == 0);
  for (uint32_t begin = 0; begin < 20; begin += 3) {
    for (uint32_t end = begin + 1; end <= 20; end += 4) blocks.ExpectRanked(halves, begin, end);
  }
}

// More blocks come and go than there are serial numbers.
TEST(UpperHalves, OutliveTheirSerialNumbers) {
  Blocks blocks(1, 1, 9);
  UpperHalves halves;
  for (int i = 0; i < 5; ++i) blocks.Add(halves, 0, false);
  const float score = 0.5F;
  const float* row = &score;
  const LayerScores one = {.pages = {&row, 1},
                           .page_tokens = 1,
                           .kv_heads = 1,
                           .tokens = TokenCount(1),
                           .scored = TokenCount(1)};
  for (uint32_t i = 0; i < (1U << 22) + 10; ++i) {
    halves.Append(one);
    halves.Erase(BlockIndex(5));
  }
  for (int i = 0; i < 5; ++i) blocks.Add(halves, 0, false);
  blocks.ExpectRanked(halves, 0, 10);
  blocks.Erase(halves, 2);
  blocks.Add(halves, 0, false);
  blocks.ExpectRanked(halves, 0, 10);
}

}  // namespace
}  // namespace folio::policy
