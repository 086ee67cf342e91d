// Policy is the interface of an eviction policy, which decides which tokens of a layer stay in the
// cache and which go. services/cache/decision.cc calls it, without the coordinator's lock.
//
// A policy is a pure function of its arguments. It has no clock, lock, device or I/O, so any thread
// may call it, the same arguments always give the same answer, and a test needs only a table of
// scores. It reads the scores that its traits name, the counts in the view and its own parameters.
//
// A policy decides for one layer, or once for a group of layers that hold the same tokens. It must
// keep the tokens that `Limits` protects. Among tokens with equal scores the older one is evicted.
#ifndef FOLIO_SERVICES_POLICY_POLICY_H_
#define FOLIO_SERVICES_POLICY_POLICY_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/score_kind.h"
#include "services/policy/layer_scores.h"

namespace folio::policy {

// These names are for callers that still write policy::ScoreNeed and the like.
using folio::ScoreKind;
using folio::ScoreNeed;
using folio::ScoreTime;
using folio::WrittenOnce;

class KeptScores;

// Depth is a part of a model's layers, in shares of their number from the first layer on.
struct Depth {
  float from = 0;  // in [0, 1)
  float to = 1;    // above `from`, at most 1

  // To the nearest layers, and at least one.
  LayerRange Of(uint32_t num_layers) const {
    const auto layer = [&](float share) {
      return static_cast<uint32_t>(std::lround(share * static_cast<float>(num_layers)));
    };
    const uint32_t begin = std::min(layer(from), num_layers - 1);
    return {begin, std::max(layer(to), begin + 1)};
  }
};

// PolicyTraits is what a policy says about itself before it sees a score. Workers write exactly the
// scores named here, and validation reads the rest.
struct PolicyTraits {
  std::string name;              // as in the protocol, for example "snap_kv"
  bool evicts = true;            // if false every token is kept and no decision is ever made
  bool ranks = true;             // it chooses by numbers, so that quotas may change its choice
  ScoreNeed scores = {};         // read from LayerScores::pages
  ScoreNeed prompt_scores = {};  // read from LayerScores::prompt_pages, by SelectPrefill alone
  bool sorts_heads = false;      // SelectDecode reads KeptScores::halves()
  // The last tokens of the prompt that SelectPrefill keeps regardless of their scores. The larger
  // of this and Limits::recent applies.
  TokenCount own_recent = {};
  // The layers whose scores count when layers decide together.
  Depth judges = {};
  // The share of the budget, in [0, 1), that goes to other tokens than the highest.
  float representative_share = 0;
  // The share of the budget that decode leaves to the prompt unless a request says otherwise.
  float prompt_share = 0;

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
  virtual std::vector<TokenSlot> SelectPrefill(LayerGroup layers, const Limits& limits) const = 0;
  std::vector<TokenSlot> SelectPrefill(const LayerScores& layer, const Limits& limits) const {
    return SelectPrefill(LayerGroup(&layer, 1), limits);
  }

  // Decides in decode, when all blocks are full and more than the budget is resident. Returns the
  // one block to drop, outside the blocks of the first `sink` and the newest `recent` tokens and
  // those that are `held`.
  // `kept` is empty, or has for each layer the scores of its full blocks, brought up to date by
  // KeptScores::Update. They make the answer cheaper and never change it.
  virtual BlockIndex SelectDecode(LayerGroup layers, const Limits& limits,
                                  absl::Span<KeptScores> kept) const = 0;
  BlockIndex SelectDecode(const LayerScores& layer, const Limits& limits) const {
    return SelectDecode(LayerGroup(&layer, 1), limits, {});
  }

  // The numbers of a layer that it chooses by, one per token and one per full block. Tokens and
  // blocks with high numbers are kept. Both are empty for a policy that goes by position alone.
  virtual std::vector<float> TokenScores(const LayerScores& /*scores*/) const { return {}; }
  virtual std::vector<float> BlockScores(const LayerScores& /*scores*/) const { return {}; }

 protected:
  explicit Policy(PolicyTraits traits) : traits_(std::move(traits)) {}

 private:
  const PolicyTraits traits_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_POLICY_H_
