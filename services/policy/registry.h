// The one place that knows every policy.
#ifndef FOLIO_SERVICES_POLICY_REGISTRY_H_
#define FOLIO_SERVICES_POLICY_REGISTRY_H_

#include <memory>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "services/common/ids.h"
#include "services/policy/policy.h"

namespace folio::policy {

struct FullSpec {};
struct PagedEvictionSpec {};
struct StreamingLlmSpec {};

// Which policy, with its parameters: the typed twin of the protocol's `Policy` message.
using PolicySpec = std::variant<FullSpec, PagedEvictionSpec, StreamingLlmSpec>;

enum class EvictionMode { kPipelined, kSynchronous };

// A sequence's cache settings, every default filled in (the RPC edge does that).
struct CacheConfig {
  PolicySpec policy = FullSpec{};
  TokenCount budget;  // 0 with FullSpec
  TokenCount sink;
  TokenCount recent;
  EvictionMode mode = EvictionMode::kPipelined;

  Limits limits() const { return Limits{budget, sink, recent}; }
};

// INVALID_ARGUMENT naming the field and the fix: budget not a multiple of `page_tokens`, missing,
// or given with `full`; sink or recent not a multiple; sink + recent > budget. `page_tokens` > 0.
absl::Status Validate(const CacheConfig& config, uint32_t page_tokens);

// Never null; thread-safe to use from any thread.
std::shared_ptr<const Policy> MakePolicy(const PolicySpec& spec);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_REGISTRY_H_
