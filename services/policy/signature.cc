#include "services/policy/signature.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "services/common/check.h"

namespace folio::policy {
namespace {

// The k-th largest of the values, none of which is NaN; 1 <= k <= values.size(). Selection among
// values in random order is what this policy would spend its time on, so they are counted into bins
// first, and only the bin that holds it is searched.
float KthLargest(absl::Span<const float> values, uint32_t k, std::vector<float>& scratch) {
  constexpr int kBins = 256;
  float low = std::numeric_limits<float>::max();
  float high = std::numeric_limits<float>::lowest();
  for (const float value : values) {
    low = std::isfinite(value) ? std::min(low, value) : low;
    high = std::isfinite(value) ? std::max(high, value) : high;
  }
  const float width = high - low;
  const float scale = width > 0 && std::isfinite(width) ? kBins / width : 0;
  // Never falls as the value grows, so bins are in order.
  const auto bin = [&](float value) {
    return static_cast<int>(std::clamp((value - low) * scale, 0.0F, float{kBins - 1}));
  };
  scratch.assign(values.begin(), values.end());
  if (!(scale > 0) || !std::isfinite(scale)) {
    std::nth_element(scratch.begin(), scratch.begin() + (k - 1), scratch.end(), std::greater<>());
    return scratch[k - 1];
  }
  std::array<uint32_t, kBins> counts = {};
  for (const float value : values) ++counts[bin(value)];
  int at = kBins - 1;
  for (; counts[at] < k; --at) k -= counts[at];
  scratch.clear();
  for (const float value : values) {
    if (bin(value) == at) scratch.push_back(value);
  }
  std::nth_element(scratch.begin(), scratch.begin() + (k - 1), scratch.end(), std::greater<>());
  return scratch[k - 1];
}

}  // namespace

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

Signatures RankSignatures(const LayerScores& scores, uint32_t begin, uint32_t end,
                          uint32_t item_tokens) {
  const uint32_t scored = scores.scored.value();
  const uint32_t tokens = end - begin;
  FOLIO_CHECK(tokens % item_tokens == 0);
  Signatures signatures(tokens / item_tokens, item_tokens * scores.kv_heads);
  std::vector<float> by_slot(tokens);
  std::vector<float> scratch;
  const uint32_t upper = tokens / 2;
  for (uint32_t head = 0; head < scores.kv_heads && upper > 0; ++head) {
    for (uint32_t i = 0; i < tokens; ++i) {
      const uint32_t slot = begin + i;
      const float score = slot < scored ? scores.row(SlotIndex(slot))[head] : NAN;
      by_slot[i] = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    }
    // The least score of the upper half: whoever is above it is in, and of those equal to it the
    // newer.
    const float least = KthLargest(by_slot, upper, scratch);
    uint32_t equal = upper;
    for (const float score : by_slot) equal -= score > least ? 1 : 0;
    for (uint32_t i = tokens; i-- > 0;) {
      const bool ties = by_slot[i] == least && equal > 0;
      if (ties) --equal;
      if (ties || by_slot[i] > least) {
        signatures.Set(i / item_tokens, i % item_tokens * scores.kv_heads + head);
      }
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
