#include "services/policy/query_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "services/base/invalid_argument.h"
#include "services/policy/agreement.h"
#include "services/policy/parameters.h"
#include "services/policy/quotas.h"
#include "services/policy/ranking.h"
#include "services/policy/wide.h"

namespace folio::policy {
namespace {

// sums[i] of 2 * `near` + 1 values from values[i] on, in the order that TokenScore adds. The inner
// loop goes over the tokens, for the compiler to vectorise.
struct Sums {
  [[gnu::always_inline]] static void Add(absl::Span<const float> values, size_t near, float* sums) {
    for (size_t ahead = 0; ahead <= 2 * near; ++ahead) {
      const float* from = &values[ahead];
      for (size_t i = 0; i + 2 * near < values.size(); ++i) sums[i] += from[i];
    }
  }
};
FOLIO_WIDE void WideAdd(absl::Span<const float> values, size_t near, float* sums) {
  Sums::Add(values, near, sums);
}

// Means over each value and up to `near` on either side.
std::vector<float> Smooth(absl::Span<const float> values, size_t near) {
  std::vector<float> means(values.size());
  const size_t inner = values.size() - std::min(values.size(), 2 * near);
  if (inner > 0) {
    float* sums = means.data() + near;
    Wide() ? WideAdd(values, near, sums) : Sums::Add(values, near, sums);
    for (size_t i = 0; i < inner; ++i) sums[i] /= static_cast<float>(2 * near + 1);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (i >= near && i - near < inner && std::isfinite(means[i])) continue;
    const size_t first = i - std::min(i, near);
    means[i] = TokenScore(values.subspan(first, i + near + 1 - first));
  }
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
