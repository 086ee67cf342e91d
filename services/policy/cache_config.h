// CacheConfig is the cache settings of one sequence: its policy, its budget and its protected
// tokens. Validate decides which settings are allowed.
#ifndef FOLIO_SERVICES_POLICY_CACHE_CONFIG_H_
#define FOLIO_SERVICES_POLICY_CACHE_CONFIG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/policy/policy.h"
#include "services/policy/registry.h"
#include "services/policy/shares.h"

namespace folio::policy {

enum class EvictionMode { kPipelined, kSynchronous };

// Compaction says when a prompt that exceeds its budget is compacted.
enum class Compaction : uint8_t {
  kWhole,  // once, at its end, so every token of it attends to all before it
  // While it is prefilled, after every `compaction_stride` tokens, and at its end. The cache never
  // holds more than the budget and that stride.
  kStreamed,
  kAutomatic,  // kStreamed if the pool could never hold the whole prompt, else kWhole
};

// Layers says whether the layers of a sequence decide by themselves.
enum class Layers : uint8_t {
  kPerLayer,
  // Once for all of them, by the mean of the judges' rankings (agreement.h), which are all layers
  // unless the policy names some. They then hold the same tokens. One thread makes the choice,
  // after it has read the scores of all judges.
  kShared,
};

// Long enough that a compaction costs little beside the prefill of so many tokens.
inline constexpr TokenCount kDefaultStride(512);

// Every default is filled in when a request is converted from the protocol.
struct CacheConfig {
  ChosenPolicy policy;
  TokenCount budget;  // 0 for `full`, and the largest of `layer_budgets` if there are any
  TokenCount sink;
  TokenCount recent;
  EvictionMode mode = EvictionMode::kPipelined;
  Compaction compaction = Compaction::kWhole;
  TokenCount compaction_stride = kDefaultStride;  // for kStreamed and kAutomatic
  std::vector<TokenCount> layer_budgets = {};     // one per layer if they differ, else empty
  Layers layers = Layers::kPerLayer;
  Shares shares = {};

  TokenCount layer_budget(size_t layer) const {
    return layer_budgets.empty() ? budget : layer_budgets[layer];
  }
  TokenCount smallest_budget() const {
    return layer_budgets.empty() ? budget
                                 : *std::min_element(layer_budgets.begin(), layer_budgets.end());
  }
  // The layers whose scores a decision reads.
  LayerRange judges(uint32_t num_layers) const {
    return layers == Layers::kShared ? policy->traits().judges.Of(num_layers)
                                     : LayerRange{0, num_layers};
  }
  Limits limits(size_t layer) const { return Limits{layer_budget(layer), sink, recent}; }
};

// INVALID_ARGUMENT names the field and the fix. `sink` and `recent` must be multiples of
// `page_tokens`. `full` has no budget. Any other policy has one for all layers or one for each,
// every one a multiple of `page_tokens` that holds the protected tokens and the representatives.
// kStreamed needs a policy that can (see CanStream) and a stride that is a multiple of the page.
// kShared needs a policy that evicts and one budget for all layers. Shares need a policy that
// evicts, and quotas one that ranks.
// Precondition: `page_tokens` > 0.
absl::Status Validate(const CacheConfig& config, uint32_t page_tokens, uint32_t num_layers);

// Whether a policy can compact a prompt before its end. It can unless its scores come from there.
bool CanStream(const PolicyTraits& policy);

// A budget, a multiple of `page_tokens`, that holds the protected tokens and the representatives,
// as every larger one does. Without a share of the budget it is the smallest.
TokenCount MinBudget(const CacheConfig& config, uint32_t page_tokens);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_CACHE_CONFIG_H_
