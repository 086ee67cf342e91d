// KeptScores is a cache of the scores of one layer's full blocks, from one decision in decode to
// the next. Scores of a kind that is written once do not change after a block has filled, so a
// decision reads only the blocks that filled since the last one. It changes the cost of a decision
// and never its outcome.
//
// Blocks are in the order of the layer's block table, so an edit of the table must be repeated
// here. Thread-compatible. A cache::Sequence owns one for each layer.
#ifndef FOLIO_SERVICES_POLICY_KEPT_SCORES_H_
#define FOLIO_SERVICES_POLICY_KEPT_SCORES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/policy/policy.h"
#include "services/policy/upper_halves.h"

namespace folio::policy {

class KeptScores {
 public:
  // The blocks whose scores need not be read again by the next Update.
  uint32_t blocks(const Policy& policy) const;
  // Brings the cache up to date with all full blocks of `scores`. It reads the blocks behind those
  // it already holds, or all blocks if the policy's scores are written again for each decision.
  // `policy` must be the same in every call, must need scores, and must score a block by its rows
  // alone.
  void Update(const Policy& policy, const LayerScores& scores);
  // The table lost a block. The entries behind it are moved by the next Update, which touches them
  // anyway, and not here under the coordinator's lock.
  void Drop(BlockIndex block);
  // All tokens of the table moved.
  void Clear();

  // Brings it into the processor's caches, for an Update that comes soon.
  void Prefetch() const;

  // The policy's BlockScores. Valid after Update.
  absl::Span<const float> block_scores() const { return block_scores_; }
  // The halves of each KV head's order, if the policy's traits say `sorts_heads`, else empty. Valid
  // after Update. They are mutable because a decision ranks the range that it chooses from.
  UpperHalves& halves() { return halves_; }

 private:
  void ApplyDrop();

  std::vector<float> block_scores_;
  UpperHalves halves_;
  std::optional<BlockIndex> dropped_;
  uint32_t page_tokens_ = 0;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_KEPT_SCORES_H_
