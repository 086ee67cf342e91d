// The one place that knows every policy.
#ifndef FOLIO_SERVICES_POLICY_REGISTRY_H_
#define FOLIO_SERVICES_POLICY_REGISTRY_H_

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "services/common/ids.h"
#include "services/policy/kv_crush.h"
#include "services/policy/policy.h"
#include "services/policy/query_diff.h"

namespace folio::policy {

struct FullSpec {};
struct PagedEvictionSpec {};
struct StreamingLlmSpec {};
struct InverseKeyNormSpec {};
struct KeyDiffSpec {};
struct SnapKvSpec {
  uint32_t window = 64;
  uint32_t pool = 7;
};
struct QueryDiffSpec {
  QueryDiff::Options options = {};
};
struct RandomSpec {
  uint64_t seed = 0;
};

struct KvCrushSpec {
  // Policies that score each KV head.
  using Base = std::variant<PagedEvictionSpec, InverseKeyNormSpec, KeyDiffSpec, SnapKvSpec>;
  Base base = PagedEvictionSpec{};
  KvCrush::Options options = {};
};

// Which policy, with its parameters: the typed twin of the protocol's `Policy` message.
using PolicySpec = std::variant<FullSpec, PagedEvictionSpec, StreamingLlmSpec, InverseKeyNormSpec,
                                KeyDiffSpec, SnapKvSpec, RandomSpec, KvCrushSpec, QueryDiffSpec>;

enum class EvictionMode { kPipelined, kSynchronous };

// A sequence's cache settings, every default filled in (the RPC edge does that).
struct CacheConfig {
  PolicySpec policy = FullSpec{};
  TokenCount budget;  // 0 with FullSpec; the largest of `layer_budgets`, if any
  TokenCount sink;
  TokenCount recent;
  EvictionMode mode = EvictionMode::kPipelined;
  std::vector<TokenCount> layer_budgets = {};  // one per layer where they differ; else empty

  TokenCount layer_budget(size_t layer) const {
    return layer_budgets.empty() ? budget : layer_budgets[layer];
  }
  Limits limits(size_t layer) const { return Limits{layer_budget(layer), sink, recent}; }
};

// INVALID_ARGUMENT naming the field and the fix: a budget not a multiple of `page_tokens`, missing,
// or given with `full`; not one budget per layer; sink or recent not a multiple; a window of 0; an
// even pool; a share outside its range; more protected and represented than a budget holds.
// `page_tokens` > 0.
absl::Status Validate(const CacheConfig& config, uint32_t page_tokens, uint32_t num_layers);

// The part of Validate that concerns the policy's own parameters.
absl::Status ValidateParameters(const PolicySpec& spec);

// The least budget that the policy and what is protected allow, a multiple of `page_tokens`.
// Precondition: the policy's own parameters are valid.
TokenCount LeastBudget(const CacheConfig& config, uint32_t page_tokens);

// Never null; thread-safe to use from any thread. The parameters must be valid.
std::shared_ptr<const Policy> MakePolicy(const PolicySpec& spec);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_REGISTRY_H_
