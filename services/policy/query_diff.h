// QueryDiff is Folio's own policy. One part of the cache goes to the tokens that the prompt's end
// asks about. The rest goes to tokens that are unlike the others, so that a question asked later
// finds its answer too.
//
// At the prompt's end `share` of the unprotected budget goes, as in SnapKV (arXiv 2404.14469), to
// the tokens that the last `window` queries attend to most (mean over queries and heads, max-pooled
// over `pool` tokens). Unless a share is given it is a quarter, and under a small budget 64 tokens,
// but at most a half, because a quarter is then shorter than the sentence that a question asks
// about. The window's own tokens are kept. The rest goes to the tokens whose key
// differs most from the mean key, as in KeyDiff (arXiv 2504.15364), with two changes. Keys are
// compared with their rotation undone, so that two tokens are alike by their content and not by
// their position. A token's difference is the mean over itself and `neighbours` tokens on each
// side, because a fact is a sentence, and a part of it says little.
//
// Layers that decide together are judged by `judges` alone. In the reference model the layers
// between two thirds and five sixths of its depth tell facts from the rest of the text best: their
// differences last over a sentence, where those of early layers change from word to word
// (tests/eval has the figures).
//
// In decode a page's importance is the mean difference of its tokens, and attention from the
// prompt's end no longer counts. A token is scored once, so that pages do not gain when others
// leave the cache. Tokens of the prompt are compared at its end with all its keys behind the first
// page. Later tokens are compared when their page fills with all resident keys behind the first
// page, or with every n-th of them if there are more than 24. Without any such key all differences
// are 0.
//
// Generation leaves two fifths of the budget to the prompt unless a request says otherwise
// (shares.h). A long answer is made of sentences that are as unlike each other as those of the
// prompt, so that by difference alone it would take the prompt's place. With that share a prompt of
// half of the budget keeps its facts, and the answer more of its own than with a half.
//
// Cost: two passes over the prompt's keys at its end, and one more attention of `window` queries if
// anything must go. When a page fills, its own keys and 24 others are read.
#ifndef FOLIO_SERVICES_POLICY_QUERY_DIFF_H_
#define FOLIO_SERVICES_POLICY_QUERY_DIFF_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "services/policy/ranking_policy.h"

namespace folio::policy {

class QueryDiff final : public RankingPolicy {
 public:
  static constexpr float kPromptShare = 0.4F;

  struct Options {
    std::optional<float> share = {};  // in [0, 1]
    uint32_t window = 16;             // at least 1
    uint32_t pool = 15;               // odd
    uint32_t neighbours = 8;          // on each side, at most 64
    Depth judges = {2.0F / 3, 5.0F / 6};
  };

  explicit QueryDiff(const Options& options);

  // Without prompt scores in the view, as in a dry run during decode, the whole budget goes by
  // difference.
  std::vector<TokenSlot> SelectPrefill(LayerGroup layers, const Limits& limits) const override;
  // Differences, smoothed over neighbouring slots.
  std::vector<float> TokenScores(const LayerScores& scores) const override;

 private:
  // How many tokens of an unprotected budget go by attention.
  uint32_t Asked(uint32_t unprotected) const;

  const std::optional<float> share_;
  const size_t neighbours_;
};

struct QueryDiffSpec {
  QueryDiff::Options options = {};

  absl::Status Check() const;
  std::shared_ptr<const Policy> Make() const { return std::make_shared<const QueryDiff>(options); }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_QUERY_DIFF_H_
