#include "services/model/cpu/stored_matrices.h"

#include <string>
#include <utility>
#include <vector>

namespace folio::model {

// Empty if one of them is not quantised, or with a type that no kernel computes with.
StoredMatrices::Matrices StoredMatrices::Read(absl::Span<const Role> roles) {
  Matrices matrices;
  if (held_ != HeldWeights::kAsStored) return matrices;
  std::string reason;
  for (const Role role : roles) {
    auto matrix = source_.ReadQuantized(role, layer_);
    if (!matrix.ok() && !absl::IsUnimplemented(matrix.status())) status_.Update(matrix.status());
    if (!matrix.ok()) reason = std::string(matrix.status().message());
    if (matrix.ok() && *matrix != nullptr) matrices.push_back(*std::move(matrix));
  }
  if (matrices.size() == roles.size()) {
    counts_.as_stored += static_cast<uint32_t>(roles.size());
    return matrices;
  }
  if (!matrices.empty() && reason.empty()) reason = "it is beside a matrix of floats";
  if (!reason.empty()) counts_.in_bfloat16[reason] += static_cast<uint32_t>(roles.size());
  return {};
}

std::unique_ptr<kernels::cpu::PackedWeights> StoredMatrices::Pack(absl::Span<const Role> roles) {
  const Matrices matrices = Read(roles);
  if (matrices.empty()) return nullptr;
  std::vector<const kernels::QuantizedMatrix*> parts;
  for (const auto& matrix : matrices) parts.push_back(matrix.get());
  return ops_.PackQuantized(parts);
}

std::unique_ptr<kernels::cpu::PackedWeights> StoredMatrices::PackGated(
    kernels::Activation activation) {
  const Matrices matrices = Read({Role::kGate, Role::kUp});
  if (matrices.empty()) return nullptr;
  return ops_.PackGatedQuantized(*matrices[0], *matrices[1], activation);
}

}  // namespace folio::model
