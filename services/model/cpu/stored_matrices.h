// StoredMatrices is a packer of matrices as a source has them, quantised, which counts those that
// cannot stay so. Each of the threads that load has its own, and their counts are added.
#ifndef FOLIO_SERVICES_MODEL_CPU_STORED_MATRICES_H_
#define FOLIO_SERVICES_MODEL_CPU_STORED_MATRICES_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cpu/ops.h"
#include "services/model/cpu/weights.h"
#include "services/model/family/role.h"
#include "services/model/source/model_source.h"

namespace folio::model {

class StoredMatrices {
 public:
  // Both outlive this. With kBfloat16 no matrix is packed.
  StoredMatrices(const ModelSource& source, const kernels::cpu::CpuOps& ops, HeldWeights held,
                 uint32_t layer)
      : source_(source), ops_(ops), held_(held), layer_(layer) {}

  // The matrices of all roles, one below the other. Null if one of them must be read as bf16, and
  // all of them are then.
  std::unique_ptr<kernels::cpu::PackedWeights> Pack(absl::Span<const Role> roles);
  // The gate and up matrices.
  std::unique_ptr<kernels::cpu::PackedWeights> PackGated(kernels::Activation activation);

  const HeldMatrices& counts() const { return counts_; }
  // The first error of the source, which is not about how a matrix is held.
  const absl::Status& status() const { return status_; }

 private:
  using Matrices = std::vector<std::unique_ptr<kernels::QuantizedMatrix>>;
  Matrices Read(absl::Span<const Role> roles);

  const ModelSource& source_;
  const kernels::cpu::CpuOps& ops_;
  HeldWeights held_;
  uint32_t layer_;
  HeldMatrices counts_;
  absl::Status status_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CPU_STORED_MATRICES_H_
