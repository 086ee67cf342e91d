#include "services/policy/quotas.h"

#include <algorithm>
#include <limits>

#include "services/base/check.h"
#include "services/policy/key_search.h"

namespace folio::policy {
namespace {

constexpr float kKept = std::numeric_limits<float>::infinity();

// The part of `count` that each of `stretches` has for itself.
uint32_t Quota(uint32_t count, size_t stretches) {
  return static_cast<uint32_t>(uint64_t{count} * 3 / 4 / stretches);
}

// Calls `use(begin, end)` with the blocks of `range` in each stretch. A block belongs to the
// stretch of its first token.
template <typename Use>
void ForEachStretch(const LayerScores& layer, BlockRange range, Use use) {
  uint32_t begin = range.begin;
  for (const TokenSlot slot : layer.stretch_ends) {
    const uint32_t behind = (slot.value() + layer.page_tokens - 1) / layer.page_tokens;
    const uint32_t end = std::clamp(behind, begin, range.end);
    use(begin, end);
    begin = end;
  }
}

}  // namespace

void KeepQuotas(absl::Span<const TokenSlot> stretch_ends, const Limits& limits,
                TokenCount by_number, std::vector<float>& numbers) {
  if (stretch_ends.empty()) return;
  const uint32_t first = limits.sink.value();
  const auto last = static_cast<uint32_t>(numbers.size()) - limits.recent.value();
  FOLIO_CHECK(first <= last && last <= numbers.size());
  const auto kept =
      static_cast<uint32_t>(std::count(numbers.begin() + first, numbers.begin() + last, kKept));
  const uint32_t free = by_number.value() - std::min(by_number.value(), kept);
  const uint32_t quota = Quota(free, stretch_ends.size());
  uint32_t begin = first;
  for (const TokenSlot slot : stretch_ends) {
    const uint32_t end = std::clamp(slot.value(), begin, last);
    const absl::Span<float> own(numbers.data() + begin, end - begin);
    const auto before = static_cast<uint32_t>(std::count(own.begin(), own.end(), kKept));
    const uint32_t wanted = std::min(before + quota, end - begin);
    ForEachBit(MaskOfHighest(own, wanted, true), [&](uint32_t i) { own[i] = kKept; });
    begin = end;
  }
}

bool HoldsBlocks(const LayerScores& layer, const Limits& limits) {
  return limits.held.begin < limits.held.end || !layer.stretch_ends.empty();
}

void HoldBlocks(const LayerScores& layer, const Limits& limits, BlockRange range, uint32_t others,
                std::vector<float>& numbers) {
  uint32_t free = 0;
  for (uint32_t block = range.begin; block < range.end; ++block) {
    const bool held = limits.held.contains(block);
    free += held ? 0 : 1;
    numbers[block] = held ? kKept : std::min(numbers[block], std::numeric_limits<float>::max());
  }
  FOLIO_CHECK(free > 0);
  if (layer.stretch_ends.empty()) return;
  // One of the free blocks goes.
  const uint32_t stay = free - 1;
  const uint32_t quota = Quota(stay - std::min(stay, others), layer.stretch_ends.size());
  const auto within = [&](uint32_t begin, uint32_t end) {
    uint32_t own = 0;
    for (uint32_t block = begin; block < end; ++block) own += limits.held.contains(block) ? 0 : 1;
    return own <= quota ? own : 0;
  };
  uint32_t kept = 0;
  ForEachStretch(layer, range, [&](uint32_t begin, uint32_t end) { kept += within(begin, end); });
  if (kept == free) return;
  ForEachStretch(layer, range, [&](uint32_t begin, uint32_t end) {
    if (within(begin, end) > 0) std::fill(numbers.begin() + begin, numbers.begin() + end, kKept);
  });
}

}  // namespace folio::policy
