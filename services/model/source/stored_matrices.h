// StoredMatrices is a reader of matrices as a source has them, quantised, which counts those that
// cannot stay so. Each of the threads that load has its own, and their counts are added.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_STORED_MATRICES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_STORED_MATRICES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/quantized.h"
#include "services/model/family/role.h"
#include "services/model/source/model_source.h"

namespace folio::model {

// How matrices that a file has quantised are held in memory.
enum class HeldWeights {
  kBfloat16,
  kAsStored,  // for types that have kernels (kernels::kQuantizedFormats); not layer 0's qkv
};

// The numbers of matrices that are held as they are stored, and of others that are quantised.
struct HeldMatrices {
  uint32_t as_stored = 0;
  std::map<std::string, uint32_t> in_bfloat16;  // how many, by the reason

  void Add(const HeldMatrices& others);
};

class StoredMatrices {
 public:
  using Matrices = std::vector<std::unique_ptr<kernels::QuantizedMatrix>>;

  // The source outlives this. With kBfloat16 nothing is read.
  StoredMatrices(const ModelSource& source, HeldWeights held, uint32_t layer)
      : source_(source), held_(held), layer_(layer) {}

  // The matrices of all roles, which one product computes. Empty if one of them must be read as
  // bf16, and all of them are then. With `alike` so it is if their formats differ.
  Matrices Read(absl::Span<const Role> roles, bool alike = false);

  const HeldMatrices& counts() const { return counts_; }
  // The first error, which is not about how a matrix is held: the source's own, or
  // INVALID_ARGUMENT for a matrix of another size than the configuration wants.
  const absl::Status& status() const { return status_; }

 private:
  // Null where it must be read as bf16. `reason` says why, if it is quantised.
  std::unique_ptr<kernels::QuantizedMatrix> ReadOne(Role role, std::string& reason);

  const ModelSource& source_;
  HeldWeights held_;
  uint32_t layer_;
  HeldMatrices counts_;
  absl::Status status_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_STORED_MATRICES_H_
