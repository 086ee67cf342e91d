// KVCrush (arXiv 2503.00022): a part of the budget goes to representatives of what a base policy
// would evict, so that what is lost is spread and not of one kind.
//
// A token has one bit per KV head: 1 when that head ranks it in the upper half of the unprotected
// tokens (upper floor(n / 2), ties to the newer). A page's signature is its tokens' bits, oldest
// token first. With `reps` = floor(share * budget), in tokens after prefill and in pages in decode:
// the base keeps all that may stay but `reps`, and what it leaves are candidates. They are sorted
// by (Hamming distance of the signature to the anchor, slot), and representative i of k is entry
// floor(i * (n - 1) / (k - 1)) of the n sorted ones: both ends, and evenly between (k = 1: the
// first). Anchors are taken over the candidates' signatures. With `prefill_only` decode is the
// base's.
//
// Cost: the upper half of each KV head's scores, by a few passes of counting, and the candidates
// sorted, all on the manager; nothing from the worker but the base's scores. In decode the manager
// holds four bytes per resident token and KV head beside each sequence.
#ifndef FOLIO_SERVICES_POLICY_KV_CRUSH_H_
#define FOLIO_SERVICES_POLICY_KV_CRUSH_H_

#include <memory>
#include <string>
#include <vector>

#include "services/policy/ranking_policy.h"
#include "services/policy/signature.h"

namespace folio::policy {

enum class CrushAnchor : uint8_t {
  kMean,         // 1 where more than half of the candidates have a 1
  kAlternating,  // 0, 1, 0, 1, ...
  kZeros,
  kOnes,
  kRandom,  // bit i is the top bit of the i-th number of SplitMix64(seed)
};

class KvCrush final : public Policy {
 public:
  struct Options {
    float share = 0.25F;  // in [0, 1)
    CrushAnchor anchor = CrushAnchor::kMean;
    uint64_t seed = 0;  // of CrushAnchor::kRandom
    bool prefill_only = false;
  };

  // `base` reads scores per head.
  KvCrush(std::shared_ptr<const RankingPolicy> base, const Options& options);

  absl::string_view name() const override { return name_; }  // "kv_crush(paged_eviction)"
  bool evicts() const override { return true; }
  ScoreNeed score_need() const override { return base_->score_need(); }
  bool ranks_heads() const override { return !options_.prefill_only; }
  TokenCount own_recent() const override { return base_->own_recent(); }
  TokenCount Representatives(TokenCount budget) const override;

  std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                       const Limits& limits) const override;
  BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const override;

  // The base's.
  std::vector<float> TokenScores(const LayerScores& scores) const override {
    return base_->TokenScores(scores);
  }
  std::vector<float> BlockScores(const LayerScores& scores) const override {
    return base_->BlockScores(scores);
  }

 private:
  // floor(share * budget).
  uint32_t Share(uint32_t budget) const;
  // Of the items of `range`, those that go: the `lowest` by their scores but for `reps` that stay
  // for them. Ascending.
  std::vector<uint32_t> Unrepresented(HeadRanks& ranks, RankedItems range,
                                      absl::Span<const float> item_scores, uint32_t lowest,
                                      uint32_t reps) const;

  const std::shared_ptr<const RankingPolicy> base_;
  const Options options_;
  const std::string name_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_KV_CRUSH_H_
