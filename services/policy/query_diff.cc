#include "services/policy/query_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "services/policy/ranking.h"

namespace folio::policy {
namespace {

constexpr size_t kSmoothed = 2;  // neighbours on each side

std::vector<float> Smooth(const std::vector<float>& values) {
  std::vector<float> means(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t first = i - std::min(i, kSmoothed);
    const size_t end = std::min(values.size(), i + kSmoothed + 1);
    float sum = 0;
    for (size_t j = first; j < end; ++j) sum += values[j];
    means[i] = sum / static_cast<float>(end - first);
  }
  return means;
}

}  // namespace

std::vector<float> QueryDiff::TokenScores(const LayerScores& scores) const {
  return Smooth(HeadMeans(scores));
}

std::vector<SlotIndex> QueryDiff::SelectPrefill(const LayerScores& scores,
                                                const Limits& limits) const {
  const Limits own = PrefillLimits(limits);
  std::vector<float> merit = TokenScores(scores);
  if (!scores.prompt_pages.empty()) {
    Limits asked = own;
    const TokenCount held = own.sink + own.recent;
    const uint32_t unprotected = (own.budget - held).value();
    asked.budget =
        held + TokenCount(static_cast<uint32_t>(std::floor(double{options_.share} * unprotected)));
    for (const SlotIndex slot : KeepHighest(HeadMeans(scores.prompt()), asked)) {
      merit[slot.value()] = std::numeric_limits<float>::infinity();
    }
  }
  return KeepHighest(merit, own);
}

}  // namespace folio::policy
