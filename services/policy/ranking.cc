#include "services/policy/ranking.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "services/base/check.h"

namespace folio::policy {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// `sum` is the float32 sum of `values`. If it is not finite it may have overflowed, so the sum is
// taken again in double.
float Mean(float sum, absl::Span<const float> values) {
  if (std::isfinite(sum)) [[likely]] {
    return sum / static_cast<float>(values.size());
  }
  double wide = 0;
  for (float value : values) wide += value;
  return std::isnan(wide) ? kLowest : static_cast<float>(wide / static_cast<double>(values.size()));
}

// Float32 sum that folds the upper half onto the lower until one value is left. The order of
// additions is part of the definition, because it decides between pages whose means differ only by
// rounding.
float FoldedSum(absl::Span<const float> values, std::vector<float>& scratch) {
  scratch.assign(values.begin(), values.end());
  for (size_t n = scratch.size(); n > 1;) {
    const size_t half = (n + 1) / 2;
    for (size_t i = half; i < n; ++i) scratch[i - half] += scratch[i];
    n = half;
  }
  return scratch[0];
}

}  // namespace

float TokenScore(absl::Span<const float> row) {
  float sum = 0;
  for (float score : row) sum += score;
  return Mean(sum, row);
}

std::vector<float> HeadMeans(const LayerScores& scores) {
  const uint32_t scored = std::min(scores.scored, scores.tokens).value();
  const uint32_t kv_heads = scores.kv_heads;
  std::vector<float> means;
  means.reserve(scores.tokens.value());
  for (const float* page : scores.pages) {
    const uint32_t rows =
        std::min(scores.page_tokens, scored - static_cast<uint32_t>(means.size()));
    for (uint32_t i = 0; i < rows; ++i) {
      means.push_back(TokenScore({page + i * size_t{kv_heads}, kv_heads}));
    }
  }
  means.resize(scores.tokens.value(), std::numeric_limits<float>::infinity());
  return means;
}

std::vector<TokenSlot> KeepHighest(absl::Span<const float> token_scores, const Limits& limits) {
  const auto tokens = static_cast<uint32_t>(token_scores.size());
  const uint32_t budget = limits.budget.value();
  const uint32_t sink = limits.sink.value();
  const uint32_t recent = limits.recent.value();
  FOLIO_CHECK(uint64_t{sink} + recent <= budget && budget <= tokens);

  std::vector<TokenSlot> keep;
  keep.reserve(tokens);
  for (uint32_t slot = 0; slot < tokens - recent; ++slot) keep.push_back(TokenSlot(slot));
  // The middle slots, the best first. If scores are equal the newer is better.
  const auto middle = keep.begin() + sink;
  const auto kept_end = middle + (budget - sink - recent);
  std::nth_element(middle, kept_end, keep.end(), [&](TokenSlot a, TokenSlot b) {
    const float score_a = token_scores[a.value()];
    const float score_b = token_scores[b.value()];
    return score_a != score_b ? score_a > score_b : a > b;
  });
  keep.erase(kept_end, keep.end());
  std::sort(keep.begin() + sink, keep.end());
  for (uint32_t slot = tokens - recent; slot < tokens; ++slot) keep.push_back(TokenSlot(slot));
  return keep;
}

BlockRange Candidates(uint32_t blocks, uint32_t page_tokens, const Limits& limits) {
  const uint32_t sink = limits.sink.value() / page_tokens;
  const uint32_t recent = limits.recent.value() / page_tokens;
  FOLIO_CHECK(uint64_t{sink} + recent < blocks);
  return {sink, blocks - recent};
}

std::vector<float> BlockMeans(absl::Span<const float> token_scores, uint32_t page_tokens) {
  std::vector<float> means(token_scores.size() / page_tokens);
  std::vector<float> scratch;
  for (size_t block = 0; block < means.size(); ++block) {
    const absl::Span<const float> tokens = token_scores.subspan(block * page_tokens, page_tokens);
    means[block] = Mean(FoldedSum(tokens, scratch), tokens);
  }
  return means;
}

BlockIndex LowestBlock(absl::Span<const float> block_scores, BlockRange range) {
  FOLIO_CHECK(range.begin < range.end && range.end <= block_scores.size());
  const auto lowest =
      std::min_element(block_scores.begin() + range.begin, block_scores.begin() + range.end);
  return BlockIndex(static_cast<uint32_t>(lowest - block_scores.begin()));
}

}  // namespace folio::policy
