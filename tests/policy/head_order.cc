#include "tests/policy/head_order.h"

#include <algorithm>
#include <limits>

namespace folio::policy {

void HeadOrder::Append(const LayerScores& scores, uint32_t begin, uint32_t end) {
  const uint32_t kv_heads = scores.kv_heads;
  const uint32_t page_tokens = scores.page_tokens;
  const uint32_t scored = std::clamp(scores.scored.value(), begin, end);
  heads_.resize(kv_heads);
  const size_t held = heads_[0].keys.size();
  const int32_t lowest = SortKey(-std::numeric_limits<float>::infinity());
  for (Head& head : heads_) head.keys.resize(held + (end - begin), lowest);
  for (uint32_t slot = begin; slot < scored;) {
    const uint32_t offset = slot % page_tokens;
    const uint32_t count = std::min(page_tokens - offset, scored - slot);
    const float* rows = &scores.pages[slot / page_tokens][size_t{offset} * kv_heads];
    for (uint32_t h = 0; h < kv_heads; ++h) {
      int32_t* keys = &heads_[h].keys[held + (slot - begin)];
      for (uint32_t i = 0; i < count; ++i) keys[i] = SortKey(rows[size_t{i} * kv_heads + h]);
    }
    slot += count;
  }
}

Highest HeadOrder::FindUpperHalf(uint32_t head, uint32_t begin, uint32_t end) {
  const auto range = absl::MakeConstSpan(heads_[head].keys).subspan(begin, end - begin);
  return FindHighest(range, (end - begin) / 2, heads_[head].guess);
}

}  // namespace folio::policy
