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

constexpr size_t kSmoothed = 2;  // neighbours on each side

// All sums at once, in the order that TokenScore adds, for the compiler to vectorise.
struct Sums {
  [[gnu::always_inline]] static void Inner(absl::Span<const float> values, float* means) {
    for (size_t i = kSmoothed; i + kSmoothed < values.size(); ++i) {
      const float* v = &values[i - kSmoothed];
      means[i] = (v[0] + v[1] + v[2] + v[3] + v[4]) / 5.0F;
    }
  }
};
static_assert(kSmoothed == 2);
FOLIO_WIDE void WideInner(absl::Span<const float> values, float* means) {
  Sums::Inner(values, means);
}

std::vector<float> Smooth(absl::Span<const float> values) {
  std::vector<float> means(values.size());
  Wide() ? WideInner(values, means.data()) : Sums::Inner(values, means.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const bool inner = i >= kSmoothed && i + kSmoothed < values.size();
    if (inner && std::isfinite(means[i])) continue;
    const size_t first = i - std::min(i, kSmoothed);
    means[i] = TokenScore(values.subspan(first, i + kSmoothed + 1 - first));
  }
  return means;
}

}  // namespace

absl::Status QueryDiffSpec::Check() const {
  const auto& [share, window, pool] = options;
  // Written so that NaN fails too.
  if (!(share >= 0 && share <= 1)) {
    return InvalidArgument("query_diff.share ", share, " must be at least 0 and at most 1");
  }
  return CheckWindow("query_diff", window, pool);
}

QueryDiff::QueryDiff(const Options& options)
    : RankingPolicy(
          {.name = "query_diff",
           .scores = Need(ScoreKind::kUnrotatedDifference),
           .prompt_scores = Need(ScoreKind::kWindowAttention, options.window, options.pool),
           .own_recent = TokenCount(options.window)}),
      share_(options.share) {}

std::vector<float> QueryDiff::TokenScores(const LayerScores& scores) const {
  const std::vector<float> own = HeadMeans(scores);
  std::vector<float> smooth = Smooth(absl::MakeConstSpan(own).first(scores.scored.value()));
  // Tokens of a page that is not full yet have no score and must be kept.
  smooth.resize(own.size(), std::numeric_limits<float>::infinity());
  return smooth;
}

std::vector<TokenSlot> QueryDiff::SelectPrefill(LayerGroup layers, const Limits& limits) const {
  const Limits own = PrefillLimits(limits);
  std::vector<float> merit = PrefillRanking(layers, own);
  if (!layers[0].prompt_pages.empty()) {
    Limits asked = own;
    const TokenCount held = own.sink + own.recent;
    const uint32_t unprotected = (own.budget - held).value();
    asked.budget =
        held + TokenCount(static_cast<uint32_t>(std::floor(double{share_} * unprotected)));
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
