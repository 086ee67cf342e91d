// Reading all of a model's tensors: sizes checked, parts side by side.
#ifndef FOLIO_SERVICES_MODEL_TENSOR_READER_H_
#define FOLIO_SERVICES_MODEL_TENSOR_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/thread_pool.h"
#include "services/model/model_source.h"

namespace folio::model {

// Told from the loading threads, one at a time: percent of the tensors that are done, 0 to 100,
// growing.
using LoadProgress = std::function<void(int percent)>;

// Tensors of one layer. Keeps the first error: INVALID_ARGUMENT names a tensor of the wrong size,
// the source's own pass through. After an error what is read has the right size and no meaning.
class TensorReader {
 public:
  TensorReader(const ModelSource& source, uint32_t layer) : source_(source), layer_(layer) {}

  std::vector<kernels::bf16> Matrix(Role role, absl::string_view name, size_t rows, size_t cols) {
    return Take(source_.ReadMatrix(role, layer_), name, rows * cols);
  }
  std::vector<float> Vector(Role role, absl::string_view name, size_t size) {
    return Take(source_.ReadVector(role, layer_), name, size);
  }
  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  std::vector<T> Take(absl::StatusOr<std::vector<T>> read, absl::string_view name, size_t want);

  const ModelSource& source_;
  uint32_t layer_;
  absl::Status status_;
};

// Calls `read` for each layer, and for what is in none (the largest part, and the first), from
// several threads at once, until one returns an error, which is returned.
absl::Status ReadParts(uint32_t layers, kernels::cpu::ThreadPool& threads,
                       const LoadProgress& progress,
                       absl::FunctionRef<absl::Status(std::optional<uint32_t> layer)> read);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TENSOR_READER_H_
