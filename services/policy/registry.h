// PolicySpec names every policy of Folio. To add one, write its header as described in README.md,
// include it here and add its spec to the variant.
//
// A spec is a policy's parameters, and the typed twin of one message of the protocol's Policy. It
// has the members `absl::Status Check() const`, which checks the parameters, and `Make() const`,
// which makes the policy of checked parameters.
#ifndef FOLIO_SERVICES_POLICY_REGISTRY_H_
#define FOLIO_SERVICES_POLICY_REGISTRY_H_

#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/policy/full.h"
#include "services/policy/inverse_key_norm.h"
#include "services/policy/key_diff.h"
#include "services/policy/kv_crush.h"
#include "services/policy/paged_eviction.h"
#include "services/policy/policy.h"
#include "services/policy/query_diff.h"
#include "services/policy/random.h"
#include "services/policy/snap_kv.h"
#include "services/policy/streaming_llm.h"
#include "services/policy/value_norm.h"

namespace folio::policy {

using PolicySpec =
    std::variant<FullSpec, PagedEvictionSpec, StreamingLlmSpec, InverseKeyNormSpec, KeyDiffSpec,
                 SnapKvSpec, RandomSpec, KvCrushSpec, QueryDiffSpec, ValueNormSpec>;

// INVALID_ARGUMENT names the parameter and the fix.
absl::Status CheckParameters(const PolicySpec& spec);

// Never null. Precondition: CheckParameters(spec) is OK.
std::shared_ptr<const Policy> MakePolicy(const PolicySpec& spec);

// ChosenPolicy is a policy together with the spec it was made from. Making one is the only place
// where a client's parameters are checked, so every later user may rely on them. Cheap to copy.
class ChosenPolicy {
 public:
  ChosenPolicy() : ChosenPolicy(PolicySpec(FullSpec())) {}
  // Precondition: CheckParameters(spec) is OK.
  explicit ChosenPolicy(const PolicySpec& spec) : spec_(spec), policy_(MakePolicy(spec)) {}
  // INVALID_ARGUMENT names the parameter and the fix.
  static absl::StatusOr<ChosenPolicy> Make(const PolicySpec& spec);

  const PolicySpec& spec() const { return spec_; }
  const Policy* operator->() const { return policy_.get(); }
  const std::shared_ptr<const Policy>& shared() const { return policy_; }

 private:
  PolicySpec spec_;
  std::shared_ptr<const Policy> policy_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_REGISTRY_H_
