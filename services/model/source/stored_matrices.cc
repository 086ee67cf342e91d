#include "services/model/source/stored_matrices.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::model {

void HeldMatrices::Add(const HeldMatrices& others) {
  as_stored += others.as_stored;
  for (const auto& [reason, count] : others.in_bfloat16) in_bfloat16[reason] += count;
}

std::unique_ptr<kernels::QuantizedMatrix> StoredMatrices::ReadOne(Role role, std::string& reason) {
  auto matrix = source_.ReadQuantized(role, layer_);
  if (absl::IsUnimplemented(matrix.status())) {
    reason = std::string(matrix.status().message());
    return nullptr;
  }
  status_.Update(matrix.status());
  if (!matrix.ok() || *matrix == nullptr) return nullptr;
  const RoleInfo& info = InfoOf(role);
  const uint32_t rows = SizeOf(info.rows, source_.config());
  const uint32_t cols = SizeOf(info.cols, source_.config());
  if ((*matrix)->n() != rows || (*matrix)->k() != cols) {
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat(info.name, " of layer ", layer_, " has the shape [", (*matrix)->n(), ", ",
                     (*matrix)->k(), "], the configuration wants [", rows, ", ", cols, "]")));
    return nullptr;
  }
  return *std::move(matrix);
}

StoredMatrices::Matrices StoredMatrices::Read(absl::Span<const Role> roles, bool alike) {
  Matrices matrices;
  if (held_ != HeldWeights::kAsStored) return matrices;
  std::string reason;
  for (const Role role : roles) {
    if (auto matrix = ReadOne(role, reason)) matrices.push_back(std::move(matrix));
  }
  bool differ = false;
  for (const auto& matrix : matrices) differ |= matrix->format() != matrices.front()->format();
  if (matrices.size() == roles.size() && !(alike && differ)) {
    counts_.as_stored += static_cast<uint32_t>(roles.size());
    return matrices;
  }
  if (reason.empty() && matrices.size() == roles.size()) {
    reason = "it is beside a matrix of another type";
  }
  if (reason.empty() && !matrices.empty()) reason = "it is beside a matrix of floats";
  if (!reason.empty()) counts_.in_bfloat16[reason] += static_cast<uint32_t>(roles.size());
  return {};
}

}  // namespace folio::model
