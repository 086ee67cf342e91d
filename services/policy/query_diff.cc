#include "services/policy/query_diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "services/base/invalid_argument.h"
#include "services/policy/agreement.h"
#include "services/policy/parameters.h"
#include "services/policy/quotas.h"
#include "services/policy/ranking.h"
#include "services/policy/wide.h"

namespace folio::policy {
namespace {

// means[i] of the `width` values from values[i] on, for `count` of them, added in the order in
// which TokenScore adds. Whether all sums are finite. The inner loops go over the tokens, for the
// compiler to vectorise, and sums of some tokens stay in registers.
struct Means {
  template <size_t kTile>
  [[gnu::always_inline]] static bool Tile(const float* values, size_t width, float* means) {
    float sums[kTile] = {};
    for (size_t ahead = 0; ahead < width; ++ahead) {
      for (size_t i = 0; i < kTile; ++i) sums[i] += values[ahead + i];
    }
    uint32_t largest = 0;
    for (size_t i = 0; i < kTile; ++i) {
      largest = std::max(largest, std::bit_cast<uint32_t>(sums[i]) & INT32_MAX);
      means[i] = sums[i] / static_cast<float>(width);
    }
    constexpr uint32_t kInfinity = 0x7F800000;
    return largest < kInfinity;
  }
  [[gnu::always_inline]] static bool Take(const float* values, size_t width, size_t count,
                                          float* means) {
    constexpr size_t kTile = 32;
    bool finite = true;
    size_t i = 0;
    for (; i + kTile <= count; i += kTile) finite &= Tile<kTile>(values + i, width, means + i);
    for (; i < count; ++i) finite &= Tile<1>(values + i, width, means + i);
    return finite;
  }
};
FOLIO_WIDE bool WideTake(const float* values, size_t width, size_t count, float* means) {
  return Means::Take(values, width, count, means);
}

// Means over each value and up to `near` on either side.
std::vector<float> Smooth(absl::Span<const float> values, size_t near) {
  std::vector<float> means(values.size());
  const auto take = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t first = i - std::min(i, near);
      means[i] = TokenScore(values.subspan(first, i + near + 1 - first));
    }
  };
  if (values.size() <= 2 * near) {
    take(0, values.size());
    return means;
  }
  // Those with as many values on either side.
  const size_t end = values.size() - near;
  const auto inner = Wide() ? WideTake : Means::Take;
  if (!inner(values.data(), 2 * near + 1, end - near, means.data() + near)) {
    for (size_t i = near; i < end; ++i) {
      if (!std::isfinite(means[i])) take(i, i + 1);
    }
  }
  take(0, near);
  take(end, values.size());
  return means;
}

}  // namespace

absl::Status QueryDiffSpec::Check() const {
  const auto& [share, window, pool, neighbours, judges] = options;
  // Written so that NaN fails too.
  if (share.has_value() && !(*share >= 0 && *share <= 1)) {
    return InvalidArgument("query_diff.share ", *share, " must be at least 0 and at most 1");
  }
  constexpr uint32_t kMost = 64;
  if (neighbours > kMost) {
    return InvalidArgument("query_diff.neighbours ", neighbours, " must be at most ", kMost);
  }
  if (!(judges.from >= 0 && judges.from < judges.to && judges.to <= 1)) {
    return InvalidArgument("query_diff.judges_from ", judges.from, " and judges_to ", judges.to,
                           " must be shares of the depth, at least 0 and at most 1, of which the "
                           "second is larger");
  }
  return CheckWindow("query_diff", window, pool);
}

QueryDiff::QueryDiff(const Options& options)
    : RankingPolicy(
          {.name = "query_diff",
           .scores = Need(ScoreKind::kUnrotatedDifference),
           .prompt_scores = Need(ScoreKind::kWindowAttention, options.window, options.pool),
           .own_recent = TokenCount(options.window),
           .judges = options.judges,
           .prompt_share = kPromptShare}),
      share_(options.share),
      neighbours_(options.neighbours) {}

std::vector<float> QueryDiff::TokenScores(const LayerScores& scores) const {
  const std::vector<float> own = HeadMeans(scores);
  std::vector<float> smooth =
      Smooth(absl::MakeConstSpan(own).first(scores.scored.value()), neighbours_);
  // Tokens of a page that is not full yet have no score and must be kept.
  smooth.resize(own.size(), std::numeric_limits<float>::infinity());
  return smooth;
}

uint32_t QueryDiff::Asked(uint32_t unprotected) const {
  if (share_.has_value()) return static_cast<uint32_t>(std::floor(double{*share_} * unprotected));
  constexpr uint32_t kLeast = 64;
  return std::max(unprotected / 4, std::min(kLeast, unprotected / 2));
}

std::vector<TokenSlot> QueryDiff::SelectPrefill(LayerGroup layers, const Limits& limits) const {
  const Limits own = PrefillLimits(limits);
  std::vector<float> merit = PrefillRanking(layers, own);
  if (!layers[0].prompt_pages.empty()) {
    Limits asked = own;
    const TokenCount held = own.sink + own.recent;
    asked.budget = held + TokenCount(Asked((own.budget - held).value()));
    const std::vector<float> attention =
        Agreed(layers, own.sink.value(), (layers[0].tokens - own.recent).value(),
               [](const LayerScores& layer) { return HeadMeans(layer.prompt()); });
    for (const TokenSlot slot : KeepHighest(attention, asked)) {
      merit[slot.value()] = std::numeric_limits<float>::infinity();
    }
  }
  KeepQuotas(layers[0].stretch_ends, own, own.budget - own.sink - own.recent, merit);
  return KeepHighest(merit, own);
}

}  // namespace folio::policy
