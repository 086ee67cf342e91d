#include "services/policy/signature.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "services/common/check.h"

namespace folio::policy {

Signatures::Signatures(uint32_t count, uint32_t bits)
    : count_(count), bits_(bits), stride_((bits + 63) / 64), words_(size_t{count} * stride_) {}

uint32_t Signatures::Distance(uint32_t item, const Signatures& other, uint32_t other_item) const {
  FOLIO_DCHECK(other.bits_ == bits_);
  const uint64_t* mine = &words_[size_t{item} * stride_];
  const uint64_t* theirs = &other.words_[size_t{other_item} * stride_];
  int distance = 0;
  for (uint32_t w = 0; w < stride_; ++w) distance += std::popcount(mine[w] ^ theirs[w]);
  return static_cast<uint32_t>(distance);
}

Signatures RankSignatures(const LayerScores& scores, uint32_t begin, uint32_t end, uint32_t scored,
                          uint32_t item_tokens) {
  const uint32_t tokens = end - begin;
  FOLIO_CHECK(tokens % item_tokens == 0);
  Signatures signatures(tokens / item_tokens, item_tokens * scores.kv_heads);
  std::vector<float> by_slot(tokens);
  std::vector<uint32_t> order(tokens);
  for (uint32_t head = 0; head < scores.kv_heads; ++head) {
    for (uint32_t i = 0; i < tokens; ++i) {
      const uint32_t slot = begin + i;
      const float score = slot < scored ? scores.row(SlotIndex(slot))[head] : NAN;
      by_slot[i] = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
      order[i] = i;
    }
    const auto upper_end = order.begin() + tokens / 2;
    std::nth_element(order.begin(), upper_end, order.end(), [&](uint32_t a, uint32_t b) {
      return by_slot[a] != by_slot[b] ? by_slot[a] > by_slot[b] : a > b;
    });
    for (auto it = order.begin(); it != upper_end; ++it) {
      signatures.Set(*it / item_tokens, *it % item_tokens * scores.kv_heads + head);
    }
  }
  return signatures;
}

std::vector<uint32_t> EvenlySpaced(const std::vector<uint32_t>& sorted, uint32_t wanted) {
  FOLIO_CHECK(wanted <= sorted.size());
  std::vector<uint32_t> chosen;
  chosen.reserve(wanted);
  const uint64_t last = sorted.size() - 1;
  for (uint64_t i = 0; i < wanted; ++i) {
    chosen.push_back(sorted[wanted == 1 ? 0 : i * last / (wanted - 1)]);
  }
  return chosen;
}

}  // namespace folio::policy
