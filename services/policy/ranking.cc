#include "services/policy/ranking.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "services/base/check.h"
#include "services/policy/key_search.h"
#include "services/policy/score_rows.h"

namespace folio::policy {
namespace {

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

// The processor does not foresee where the next page is.
constexpr size_t kPagesAhead = 32;

}  // namespace

std::vector<float> HeadMeans(const LayerScores& scores) {
  const uint32_t scored = std::min(scores.scored, scores.tokens).value();
  std::vector<float> means(scores.tokens.value());
  const size_t page_floats = size_t{scores.page_tokens} * scores.kv_heads;
  uint32_t slot = 0;
  for (size_t block = 0; block < scores.pages.size(); ++block) {
    if (block + kPagesAhead < scores.pages.size()) {
      Prefetch(scores.pages[block + kPagesAhead], page_floats);
    }
    const uint32_t rows = std::min(scores.page_tokens, scored - slot);
    RowMeans(scores.pages[block], rows, scores.kv_heads, means.data() + slot);
    slot += rows;
  }
  std::fill(means.begin() + slot, means.end(), std::numeric_limits<float>::infinity());
  return means;
}

std::vector<TokenSlot> KeepHighest(absl::Span<const float> token_scores, const Limits& limits) {
  const auto tokens = static_cast<uint32_t>(token_scores.size());
  const uint32_t budget = limits.budget.value();
  const uint32_t sink = limits.sink.value();
  const uint32_t recent = limits.recent.value();
  FOLIO_CHECK(uint64_t{sink} + recent <= budget && budget <= tokens);

  const auto middle = token_scores.subspan(sink, tokens - recent - sink);
  return KeepMiddle(MaskOfHighest(middle, budget - sink - recent, true), TokenCount(tokens),
                    limits);
}

std::vector<TokenSlot> KeepMiddle(absl::Span<const uint64_t> middle, TokenCount tokens,
                                  const Limits& limits) {
  const uint32_t sink = limits.sink.value();
  std::vector<TokenSlot> keep;
  keep.reserve(limits.budget.value());
  for (uint32_t slot = 0; slot < sink; ++slot) keep.emplace_back(slot);
  ForEachBit(middle, [&](uint32_t i) { keep.emplace_back(sink + i); });
  const uint32_t recent = (tokens - limits.recent).value();
  for (uint32_t slot = recent; slot < tokens.value(); ++slot) keep.emplace_back(slot);
  return keep;
}

bool MayDrop(uint32_t blocks, uint32_t page_tokens, const Limits& limits) {
  const uint32_t begin = limits.sink.value() / page_tokens;
  const uint32_t recent = limits.recent.value() / page_tokens;
  if (uint64_t{begin} + recent >= blocks) return false;
  return limits.held.begin > begin || limits.held.end < blocks - recent;
}

BlockRange Candidates(uint32_t blocks, uint32_t page_tokens, const Limits& limits) {
  const uint32_t sink = limits.sink.value() / page_tokens;
  const uint32_t recent = limits.recent.value() / page_tokens;
  FOLIO_CHECK(MayDrop(blocks, page_tokens, limits));
  return {sink, blocks - recent};
}

std::vector<float> BlockMeans(absl::Span<const float> token_scores, uint32_t page_tokens) {
  std::vector<float> means(token_scores.size() / page_tokens);
  std::vector<float> scratch;
  for (size_t block = 0; block < means.size(); ++block) {
    const absl::Span<const float> tokens = token_scores.subspan(block * page_tokens, page_tokens);
    const float sum = FoldedSum(tokens, scratch);
    means[block] = std::isfinite(sum) ? sum / static_cast<float>(page_tokens) : TokenScore(tokens);
  }
  return means;
}

BlockIndex LowestBlock(absl::Span<const float> block_scores, BlockRange range) {
  FOLIO_CHECK(range.begin < range.end && range.end <= block_scores.size());
  const auto candidates = block_scores.subspan(range.begin, range.end - range.begin);
  return BlockIndex(range.begin + OldestLowest(candidates));
}

}  // namespace folio::policy
