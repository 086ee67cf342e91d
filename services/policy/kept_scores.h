// What is kept of one layer's full blocks from one decision in decode to the next: the score of
// each, and where its tokens stand with each KV head if the policy asks. Scores that are written
// once change no more once a block is full, so a decision reads the blocks that filled since the
// last one, and no other.
//
// Blocks are in the order of the table: who edits that edits this. Thread-compatible.
#ifndef FOLIO_SERVICES_POLICY_KEPT_SCORES_H_
#define FOLIO_SERVICES_POLICY_KEPT_SCORES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "services/common/ids.h"
#include "services/policy/head_ranks.h"
#include "services/policy/policy.h"

namespace folio::policy {

class KeptScores {
 public:
  // Holds all full blocks of `scores` afterwards: reads those behind the ones it holds, or all if
  // the policy's scores are written anew for each decision. `policy` is always the same, reads
  // scores, and gives a block a score by its rows alone.
  void Follow(const Policy& policy, const LayerScores& scores);
  // The table lost a block. What this moves is moved by the next Follow, which reads it anyway.
  void Drop(BlockIndex block);
  // Everything in the table moved.
  void Clear();

  // After Follow: the policy's BlockScores.
  absl::Span<const float> block_scores() const { return block_scores_; }
  // After Follow: all tokens of the full blocks. Empty unless the policy ranks_heads.
  HeadRanks& ranks() { return ranks_; }

 private:
  void CarryOutDrop();

  std::vector<float> block_scores_;
  HeadRanks ranks_;
  std::optional<BlockIndex> dropped_;
  uint32_t page_tokens_ = 0;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_KEPT_SCORES_H_
