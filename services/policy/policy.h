// An eviction policy: a pure function from scores to a decision. No clock, lock, device or I/O, so
// any thread may call it and the same view always gives the same answer.
//
// The policy sees one layer at a time. Protected tokens (sinks, recent ones) are part of the view's
// counts; every policy must keep them. Ties break towards the older slot being evicted.
//
// A policy says what it needs from the worker (`score_need`) and is told nothing else: what is not
// on the board, in the view or in its own parameters cannot decide anything.
#ifndef FOLIO_SERVICES_POLICY_POLICY_H_
#define FOLIO_SERVICES_POLICY_POLICY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/common/ids.h"

namespace folio::policy {

class KeptScores;

// The importance scores of one layer's resident tokens, read page by page from the score board.
// `pages[b]` points at `float[page_tokens][kv_heads]` of block b; only the first `tokens` rows
// counted over all blocks are meaningful. Views borrow: the memory must outlive the call.
struct LayerScores {
  absl::Span<const float* const> pages = {};
  // The same of the board's second plane, for prompt_score_need(); empty but for the decision that
  // follows the prompt.
  absl::Span<const float* const> prompt_pages = {};
  uint32_t page_tokens = 16;
  uint32_t kv_heads = 1;
  TokenCount tokens = {};
  // How many of them, the oldest, have a row on the board: all, or those of the prompt where scores
  // are written at its end, or those of full pages where they are written when one fills.
  TokenCount scored = {};
  LayerIndex layer = {};
  // Tokens that the model has seen: differs at every decision of a sequence in decode.
  TokenCount logical_length = {};
  // In decode, what is kept of the layer's full blocks, all of them, or null. Makes an answer
  // cheaper, and never another one.
  KeptScores* kept = nullptr;

  // The view of the second plane.
  LayerScores prompt() const {
    LayerScores second = *this;
    second.pages = prompt_pages;
    return second;
  }

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

// The importance that a worker writes to the score board; the protocol's ScoreKind.
enum class ScoreKind : uint8_t {
  kNone,
  kNormRatio,        // ||V||2 / ||K||2
  kInverseKeyNorm,   // 1 / ||K||2
  kKeyDifference,    // -cos(K, mean of the resident tokens' normalised keys)
  kWindowAttention,  // attention mass from the prompt's last queries, max-pooled
  // -cos(K, mean of a sample's normalised keys), with their rotation undone
  kUnrotatedDifference,
};

// When it is written; the protocol's ScoreTime.
enum class ScoreTime : uint8_t { kNever, kAppend, kPromptEnd, kDecision, kPageFill };

// What is on the board for a full page stays as it is.
constexpr bool WrittenOnce(ScoreTime time) {
  switch (time) {
    case ScoreTime::kAppend:
    case ScoreTime::kPromptEnd:
    case ScoreTime::kPageFill:
      return true;
    case ScoreTime::kNever:
    case ScoreTime::kDecision:
      break;
  }
  return false;
}

struct ScoreNeed {
  ScoreKind kind = ScoreKind::kNone;
  ScoreTime time = ScoreTime::kNever;
  uint32_t window = 0;  // queries, for kWindowAttention
  uint32_t pool = 0;    // neighbours that it takes the maximum of, odd
  friend constexpr bool operator==(const ScoreNeed&, const ScoreNeed&) = default;
};

// Thread-compatible and stateless after construction.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual absl::string_view name() const = 0;

  // False: every token is kept, and the functions below are not called.
  virtual bool evicts() const = 0;

  // What it reads from LayerScores rows; with kNone they are not there, and the worker scores
  // nothing.
  virtual ScoreNeed score_need() const { return {}; }
  // What only SelectPrefill reads, at the prompt's end, from LayerScores::prompt().
  virtual ScoreNeed prompt_score_need() const { return {}; }
  bool needs_scores() const { return score_need().kind != ScoreKind::kNone; }

  // SelectDecode compares the tokens by each KV head: LayerScores::kept holds that too.
  virtual bool ranks_heads() const { return false; }

  // Tokens per layer, at the end, that it keeps by its own definition, whatever they score; it
  // keeps the more of this and `limits.recent`.
  virtual TokenCount own_recent() const { return TokenCount(0); }

  // Budget that goes to other tokens than the highest: what `sink` and `recent` must leave room
  // for.
  virtual TokenCount Representatives(TokenCount /*budget*/) const { return TokenCount(0); }

  // After prefill with scores.tokens > limits.budget: the slots to keep, ascending, exactly
  // `limits.budget` of them, the first `sink` and the last `recent` slots among them.
  virtual std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                               const Limits& limits) const = 0;

  // In decode, with all blocks full and more than the budget resident: the one block to drop, not
  // among the first `sink` and the newest `recent` tokens' blocks. Precondition: a candidate exists
  // (budget >= sink + recent guarantees it).
  virtual BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const = 0;

  // What it chooses by, high is kept: one number per token, and one per full block. Empty for a
  // policy that goes by position alone.
  virtual std::vector<float> TokenScores(const LayerScores& /*scores*/) const { return {}; }
  virtual std::vector<float> BlockScores(const LayerScores& /*scores*/) const { return {}; }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_POLICY_H_
