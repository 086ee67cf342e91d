// QueryDiff, Folio's own: one half of the cache for what the prompt's end asks about, the other for
// what is unlike the rest, so that a question asked later finds it too.
//
// At the prompt's end `share` of the unprotected budget goes, as in SnapKV (arXiv 2404.14469), to
// the tokens that the last `window` queries attend to most (mean over queries and heads, max-pooled
// over `pool` tokens); the window's own tokens are kept. The rest goes to the tokens whose key
// differs most from the mean key, as in KeyDiff (arXiv 2504.15364), with two changes: keys are
// compared with their rotation undone, so that two tokens are alike by what they say and not by
// where they stand; and a token's difference is the mean over itself and two neighbours on each
// side, since what is worth keeping is rarely one token.
//
// In decode a page's importance is the mean difference of its tokens; what the prompt's end asked
// for counts no more. A token is judged once, so that pages do not gain by what leaves the cache:
// those of the prompt at its end, against all its keys behind the first page; others when their
// page fills, against the last key of every resident page but the first, or of every n-th such page
// where they would be more than 16. Where there is no such key all differences are 0.
//
// Cost: at the prompt's end two passes over its keys, and one more attention of `window` queries if
// anything must go; when a page fills, its own keys and 16 others.
#ifndef FOLIO_SERVICES_POLICY_QUERY_DIFF_H_
#define FOLIO_SERVICES_POLICY_QUERY_DIFF_H_

#include <vector>

#include "services/policy/ranking_policy.h"

namespace folio::policy {

class QueryDiff final : public RankingPolicy {
 public:
  struct Options {
    float share = 0.5F;    // in [0, 1]
    uint32_t window = 16;  // >= 1
    uint32_t pool = 31;    // odd
  };

  explicit QueryDiff(const Options& options) : options_(options) {}

  absl::string_view name() const override { return "query_diff"; }
  ScoreNeed score_need() const override {
    return {ScoreKind::kUnrotatedDifference, ScoreTime::kPageFill};
  }
  ScoreNeed prompt_score_need() const override {
    return {ScoreKind::kWindowAttention, ScoreTime::kPromptEnd, options_.window, options_.pool};
  }
  TokenCount own_recent() const override { return TokenCount(options_.window); }

  // Where the view has no prompt scores any more (a dry run in decode), all goes by difference.
  std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                       const Limits& limits) const override;
  // Differences, smoothed over neighbouring slots.
  std::vector<float> TokenScores(const LayerScores& scores) const override;

 private:
  const Options options_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_QUERY_DIFF_H_
