// StoredLayers is the matrices of a model's layers that a GPU holds quantised, as the source has
// them. They are found before any is sent, because all weights are one piece of memory.
#ifndef FOLIO_SERVICES_MODEL_CUDA_STORED_LAYERS_H_
#define FOLIO_SERVICES_MODEL_CUDA_STORED_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/quantized_format.h"
#include "kernels/threads/thread_pool.h"
#include "services/model/source/model_source.h"
#include "services/model/source/stored_matrices.h"

namespace folio::model {

// Matrices of one format, one below the other.
class StoredPart {
 public:
  explicit StoredPart(StoredMatrices::Matrices matrices) : matrices_(std::move(matrices)) {}

  const kernels::QuantizedFormat& format() const { return matrices_.front()->format(); }
  uint32_t rows() const;
  uint32_t cols() const { return matrices_.front()->k(); }
  // As the GPU holds them (kernels/cuda/quantized_matrix.h).
  size_t bytes() const;
  std::vector<std::byte> Pack() const;

 private:
  StoredMatrices::Matrices matrices_;  // not empty
};

// The parts of each product's matrix. A product without parts has a matrix of bf16.
struct StoredLayer {
  std::vector<StoredPart> qkv, out, gate_up, down;
};

struct StoredLayers {
  std::vector<StoredLayer> layers;  // as many as the model has
  HeldMatrices held;
};

// The first layer's queries, keys and values are bf16, as on CPUs, and so are gates and ups of two
// formats. All of each matrix's scales are looked at, by `threads`. The result borrows from
// `source`. Errors are those of StoredMatrices.
absl::StatusOr<StoredLayers> FindStoredLayers(const ModelSource& source, HeldWeights held,
                                              kernels::ThreadPool& threads);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_STORED_LAYERS_H_
