// Full is the policy that keeps every token: a cache without eviction, and the reference that the
// other policies are measured against.
#ifndef FOLIO_SERVICES_POLICY_FULL_H_
#define FOLIO_SERVICES_POLICY_FULL_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "services/policy/policy.h"

namespace folio::policy {

class Full final : public Policy {
 public:
  Full() : Policy({.name = "full", .evicts = false}) {}
  // Returns every slot.
  std::vector<TokenSlot> SelectPrefill(LayerGroup layers, const Limits& limits) const override;
  // Ends the process: `full` must not be asked for a block.
  BlockIndex SelectDecode(LayerGroup layers, const Limits& limits,
                          absl::Span<KeptScores> kept) const override;
};

struct FullSpec {
  absl::Status Check() const { return absl::OkStatus(); }
  std::shared_ptr<const Policy> Make() const { return std::make_shared<const Full>(); }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_FULL_H_
