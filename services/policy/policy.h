// An eviction policy: a pure function from scores to a decision. No clock, lock, device or I/O, so
// any thread may call it and the same view always gives the same answer.
//
// The policy sees one layer at a time. Protected tokens (sinks, recent ones) are part of the view's
// counts; every policy must keep them. Ties break towards the older slot being evicted.
#ifndef FOLIO_SERVICES_POLICY_POLICY_H_
#define FOLIO_SERVICES_POLICY_POLICY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/common/ids.h"

namespace folio::policy {

// The importance scores of one layer's resident tokens, read page by page from the score board.
// `pages[b]` points at `float[page_tokens][kv_heads]` of block b; only the first `tokens` rows
// counted over all blocks are meaningful. Views borrow: the memory must outlive the call.
struct LayerScores {
  absl::Span<const float* const> pages;
  uint32_t page_tokens = 16;
  uint32_t kv_heads = 1;
  TokenCount tokens;

  // Row of slot `slot`: `kv_heads` floats.
  absl::Span<const float> row(SlotIndex slot) const {
    const float* page = pages[slot.value() / page_tokens];
    return {page + size_t{slot.value() % page_tokens} * kv_heads, kv_heads};
  }
};

// Limits that hold for every policy, in tokens; all multiples of the page size.
struct Limits {
  TokenCount budget;
  TokenCount sink;
  TokenCount recent;
};

// Thread-compatible and stateless after construction.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual absl::string_view name() const = 0;

  // False: every token is kept, and the functions below are not called.
  virtual bool evicts() const = 0;

  // True when the policy reads LayerScores rows; false lets the worker skip scoring.
  virtual bool needs_scores() const = 0;

  // After prefill with scores.tokens > limits.budget: the slots to keep, ascending, exactly
  // `limits.budget` of them, the first `sink` and the last `recent` slots among them.
  virtual std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                               const Limits& limits) const = 0;

  // In decode, with all blocks full and more than the budget resident: the one block to drop, not
  // among the first `sink` and the newest `recent` tokens' blocks. Precondition: a candidate exists
  // (budget >= sink + recent guarantees it).
  virtual BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const = 0;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_POLICY_H_
