// RankingPolicy is the base of the policies that give each token and each block a number and keep
// the highest. All policies except `full` and `streaming_llm` are of this kind, and a subclass says
// where the numbers come from.
#ifndef FOLIO_SERVICES_POLICY_RANKING_POLICY_H_
#define FOLIO_SERVICES_POLICY_RANKING_POLICY_H_

#include <utility>
#include <vector>

#include "services/policy/policy.h"
#include "services/policy/ranking.h"

namespace folio::policy {

class RankingPolicy : public Policy {
 public:
  // Keeps the tokens with the highest TokenScores between the protected ones, after quotas if there
  // are any. Several layers keep those with the highest agreed ones (agreement.h).
  std::vector<TokenSlot> SelectPrefill(LayerGroup layers, const Limits& limits) const override;
  // Drops the unprotected block with the lowest BlockScores, or the lowest agreed ones.
  BlockIndex SelectDecode(LayerGroup layers, const Limits& limits,
                          absl::Span<KeptScores> kept) const override;

  // Float32 means of the board's rows over the KV heads, and +inf for tokens without a row.
  std::vector<float> TokenScores(const LayerScores& scores) const override;
  // Means of the rows' means over each full block.
  std::vector<float> BlockScores(const LayerScores& scores) const override;

  // `limits` with traits().own_recent taken in. This holds in prefill only: in decode the prompt's
  // last tokens are no longer protected, and `limits` applies unchanged.
  Limits PrefillLimits(const Limits& limits) const;

  // The TokenScores that SelectPrefill ranks by before quotas, of which those between the protected
  // tokens count. `own` is from PrefillLimits.
  std::vector<float> PrefillRanking(LayerGroup layers, const Limits& own) const;
  // The BlockScores that SelectDecode ranks `range` by, where blocks that must stay are highest.
  // `others` of those that stay have no part in quotas.
  std::vector<float> DecodeRanking(LayerGroup layers, const Limits& limits, BlockRange range,
                                   absl::Span<const KeptScores> kept, uint32_t others = 0) const;

 protected:
  explicit RankingPolicy(PolicyTraits traits) : Policy(std::move(traits)) {}
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_RANKING_POLICY_H_
