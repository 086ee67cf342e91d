#include "services/policy/registry.h"

namespace folio::policy {

absl::Status CheckParameters(const PolicySpec& spec) {
  return std::visit([](const auto& parameters) { return parameters.Check(); }, spec);
}

std::shared_ptr<const Policy> MakePolicy(const PolicySpec& spec) {
  return std::visit(
      [](const auto& parameters) -> std::shared_ptr<const Policy> { return parameters.Make(); },
      spec);
}

absl::StatusOr<ChosenPolicy> ChosenPolicy::Make(const PolicySpec& spec) {
  if (absl::Status status = CheckParameters(spec); !status.ok()) return status;
  return ChosenPolicy(spec);
}

}  // namespace folio::policy
