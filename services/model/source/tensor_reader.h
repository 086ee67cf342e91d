// TensorReader reads tensors of the sizes that a configuration wants, and ReadParts reads the parts
// of a model side by side.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_TENSOR_READER_H_
#define FOLIO_SERVICES_MODEL_SOURCE_TENSOR_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/threads/thread_pool.h"
#include "services/model/family/role.h"
#include "services/model/source/model_source.h"

namespace folio::model {

// Is told how many percent of the tensors are loaded, growing from 0 to 100. Loading threads call
// it, one at a time.
using LoadProgress = std::function<void(int percent)>;

// Reads tensors of one layer, or of the model, and checks that they have the size that the
// configuration wants. It keeps the first error: INVALID_ARGUMENT names a tensor of the wrong size,
// the source's own pass through. After an error what is read has the right size and no meaning, so
// that callers check once, at the end.
class TensorReader {
 public:
  TensorReader(const ModelSource& source, uint32_t layer) : source_(source), layer_(layer) {}

  std::vector<kernels::bf16> Matrix(Role role) {
    return Take(source_.ReadMatrix(role, layer_), role);
  }
  ScaledMatrix Scaled(Role role);
  std::vector<float> Vector(Role role) { return Take(source_.ReadVector(role, layer_), role); }

  // Several, one below the other.
  std::vector<kernels::bf16> Matrices(absl::Span<const Role> roles);
  std::vector<float> Vectors(absl::Span<const Role> roles);

  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  std::vector<T> Take(absl::StatusOr<std::vector<T>> read, Role role);

  const ModelSource& source_;
  uint32_t layer_;
  absl::Status status_;
};

// Calls `read` for each layer, and first, with no layer, for the tensors outside of layers, which
// are the largest part. Several threads call it at once, until one of them gets an error, which is
// returned.
absl::Status ReadParts(uint32_t layers, kernels::ThreadPool& threads, const LoadProgress& progress,
                       absl::FunctionRef<absl::Status(std::optional<uint32_t> layer)> read);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_TENSOR_READER_H_
