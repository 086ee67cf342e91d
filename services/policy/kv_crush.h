// KvCrush is the policy of KVCrush (arXiv 2503.00022). It decorates a base policy: a part of the
// budget goes to representatives of the tokens that the base would evict, so that the loss is
// spread over all kinds of tokens.
//
// A token has one bit per KV head, which is 1 when that head ranks it in the upper half of the
// unprotected tokens (upper floor(n / 2), ties to the newer). A page's signature is its tokens'
// bits, oldest token first. Let `reps` be floor(share * budget), in tokens after prefill and in
// pages in decode. The base keeps all that may stay except `reps`, and the others are candidates.
// They are sorted by (Hamming distance of the signature to the anchor, slot), and representative i
// of k is entry floor(i * (n - 1) / (k - 1)) of the n sorted ones. That is both ends and evenly
// between them, or the first if k = 1. Anchors are taken over the candidates' signatures. With
// `prefill_only` the base decides alone in decode. Layers that decide together are one layer with
// the KV heads of all of them, in their order.
//
// Cost: the manager finds the upper half of each KV head's scores, at the prompt's end by a few
// passes of counting (crush_tokens.h) and in decode from those of the last decision
// (upper_halves.h). The worker writes only the base's scores. In decode the manager keeps four
// bytes per resident token and KV head for each sequence, and 760 per layer and KV head.
#ifndef FOLIO_SERVICES_POLICY_KV_CRUSH_H_
#define FOLIO_SERVICES_POLICY_KV_CRUSH_H_

#include <memory>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "services/policy/crush_anchor.h"
#include "services/policy/inverse_key_norm.h"
#include "services/policy/key_diff.h"
#include "services/policy/paged_eviction.h"
#include "services/policy/ranking_policy.h"
#include "services/policy/snap_kv.h"

namespace folio::policy {

class KvCrush final : public Policy {
 public:
  struct Options {
    float share = 0.25F;  // in [0, 1)
    CrushAnchor anchor = CrushAnchor::kMean;
    uint64_t seed = 0;  // for CrushAnchor::kRandom
    bool prefill_only = false;
  };

  // `base` must read scores per head. The policy's name is, for example,
  // "kv_crush(paged_eviction)".
  KvCrush(std::shared_ptr<const RankingPolicy> base, const Options& options);

  std::vector<TokenSlot> SelectPrefill(LayerGroup layers, const Limits& limits) const override;
  BlockIndex SelectDecode(LayerGroup layers, const Limits& limits,
                          absl::Span<KeptScores> kept) const override;

  // The base's scores.
  std::vector<float> TokenScores(const LayerScores& scores) const override {
    return base_->TokenScores(scores);
  }
  std::vector<float> BlockScores(const LayerScores& scores) const override {
    return base_->BlockScores(scores);
  }

 private:
  // floor(share * budget).
  uint32_t Share(uint32_t budget) const;

  const std::shared_ptr<const RankingPolicy> base_;
  const Options options_;
};

struct KvCrushSpec {
  // The policies that score each KV head.
  using Base = std::variant<PagedEvictionSpec, InverseKeyNormSpec, KeyDiffSpec, SnapKvSpec>;
  Base base = PagedEvictionSpec{};
  KvCrush::Options options = {};

  absl::Status Check() const;
  std::shared_ptr<const Policy> Make() const;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_KV_CRUSH_H_
