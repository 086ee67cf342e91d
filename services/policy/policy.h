// Policy is the interface of an eviction policy, which decides which tokens of a layer stay in the
// cache and which go. services/cache/decision.cc calls it, without the coordinator's lock.
//
// A policy is a pure function of its arguments. It has no clock, lock, device or I/O, so any thread
// may call it, the same arguments always give the same answer, and a test needs only a table of
// scores. It reads the scores that its traits name, the counts in the view and its own parameters.
//
// A policy sees one layer at a time and must keep the tokens that `Limits` protects. Among tokens
// with equal scores the older one is evicted.
#ifndef FOLIO_SERVICES_POLICY_POLICY_H_
#define FOLIO_SERVICES_POLICY_POLICY_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/score_kind.h"

namespace folio::policy {

// These names are for callers that still write policy::ScoreNeed and the like.
using folio::ScoreKind;
using folio::ScoreNeed;
using folio::ScoreTime;
using folio::WrittenOnce;

class KeptScores;

// LayerScores is a view of one layer's resident tokens and of their scores, page by page as they
// lie on the score board. `pages[b]` points at `float[page_tokens][kv_heads]` of block b, and only
// the first `tokens` rows over all blocks have a meaning. The memory must outlive the call.
struct LayerScores {
  absl::Span<const float* const> pages = {};
  // So many of the oldest blocks are left out of `pages`, because their scores are kept. Only
  // KeptScores::Update may read such a view.
  uint32_t kept_blocks = 0;
  // The board's second channel, for PolicyTraits::prompt_scores. It is filled for the decision at
  // the prompt's end and empty afterwards.
  absl::Span<const float* const> prompt_pages = {};
  uint32_t page_tokens = 16;
  uint32_t kv_heads = 1;
  TokenCount tokens = {};
  // How many of the oldest tokens have a row on the board. These are the prompt's tokens if scores
  // are written at its end, the tokens of full pages if they are written when a page fills, and all
  // tokens otherwise.
  TokenCount scored = {};
  LayerIndex layer = {};
  // Tokens that the model has seen. In decode it differs at every decision of a sequence.
  TokenCount logical_length = {};

  // The same view, of the second channel.
  LayerScores prompt() const {
    LayerScores second = *this;
    second.pages = prompt_pages;
    return second;
  }

  // The row of a slot: `kv_heads` floats.
  absl::Span<const float> row(TokenSlot slot) const {
    const float* page = pages[slot.value() / page_tokens - kept_blocks];
    return {page + size_t{slot.value() % page_tokens} * kv_heads, kv_heads};
  }
};

// Limits are what every policy must respect in a layer, in tokens. All are multiples of the page.
struct Limits {
  TokenCount budget;
  TokenCount sink;    // the first tokens, always kept
  TokenCount recent;  // the last tokens, always kept
};

// PolicyTraits is what a policy says about itself before it sees a score. Workers write exactly the
// scores named here, and validation reads the rest.
struct PolicyTraits {
  std::string name;              // as in the protocol, for example "snap_kv"
  bool evicts = true;            // if false every token is kept and no decision is ever made
  ScoreNeed scores = {};         // read from LayerScores::pages
  ScoreNeed prompt_scores = {};  // read from LayerScores::prompt_pages, by SelectPrefill alone
  bool sorts_heads = false;      // SelectDecode reads KeptScores::halves()
  // The last tokens of the prompt that SelectPrefill keeps regardless of their scores. The larger
  // of this and Limits::recent applies.
  TokenCount own_recent = {};
  // The share of the budget, in [0, 1), that goes to other tokens than the highest.
  float representative_share = 0;

  bool needs_scores() const { return scores.kind != ScoreKind::kNone; }
  // The part of a budget that `sink` and `recent` must leave to representatives.
  TokenCount Representatives(TokenCount budget) const {
    const double share = representative_share;
    return TokenCount(static_cast<uint32_t>(std::floor(share * budget.value())));
  }
};

// The need for scores of `kind`, at the time when that kind is written.
constexpr ScoreNeed Need(ScoreKind kind, uint32_t window = 0, uint32_t pool = 0) {
  return {kind, TraitsOf(kind).time, window, pool};
}

// Immutable after construction.
class Policy {
 public:
  virtual ~Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  const PolicyTraits& traits() const { return traits_; }

  // Decides after prefill. Returns the slots to keep in ascending order, exactly `limits.budget` of
  // them, with the first `sink` and the last `recent` slots among them. Precondition: more tokens
  // than the budget.
  virtual std::vector<TokenSlot> SelectPrefill(const LayerScores& scores,
                                               const Limits& limits) const = 0;

  // Decides in decode, when all blocks are full and more than the budget is resident. Returns the
  // one block to drop, outside the blocks of the first `sink` and the newest `recent` tokens.
  // `kept` may hold the scores of the layer's full blocks, brought up to date by
  // KeptScores::Update. It makes the answer cheaper and never changes it.
  virtual BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits,
                                  KeptScores* kept) const = 0;
  BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const {
    return SelectDecode(scores, limits, nullptr);
  }

  // The numbers it chooses by, one per token and one per full block. Tokens and blocks with high
  // numbers are kept. Both are empty for a policy that goes by position alone.
  virtual std::vector<float> TokenScores(const LayerScores& /*scores*/) const { return {}; }
  virtual std::vector<float> BlockScores(const LayerScores& /*scores*/) const { return {}; }

 protected:
  explicit Policy(PolicyTraits traits) : traits_(std::move(traits)) {}

 private:
  const PolicyTraits traits_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_POLICY_H_
