#include "services/model/tensor_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace folio::model {
namespace {

absl::Status WrongSize(absl::string_view tensor, uint32_t layer, size_t want, size_t got) {
  return absl::InvalidArgumentError(absl::StrCat(tensor, " of layer ", layer, " has ", got,
                                                 " elements, the configuration wants ", want));
}

}  // namespace

template <typename T>
std::vector<T> TensorReader::Take(absl::StatusOr<std::vector<T>> read, absl::string_view name,
                                  size_t want) {
  if (!read.ok()) {
    status_.Update(read.status());
  } else if (read->size() != want) {
    status_.Update(WrongSize(name, layer_, want, read->size()));
  }
  // The right size whatever happened, so that packing goes on; the result is thrown away.
  if (!status_.ok()) return std::vector<T>(want);
  return *std::move(read);
}

template std::vector<kernels::bf16> TensorReader::Take(absl::StatusOr<std::vector<kernels::bf16>>,
                                                       absl::string_view, size_t);
template std::vector<float> TensorReader::Take(absl::StatusOr<std::vector<float>>,
                                               absl::string_view, size_t);

absl::Status ReadParts(uint32_t layers, kernels::cpu::ThreadPool& threads,
                       const LoadProgress& progress,
                       absl::FunctionRef<absl::Status(std::optional<uint32_t> layer)> read) {
  absl::Mutex mutex;
  absl::Status status;  // the first error
  uint32_t done = 0;
  threads.ParallelFor(static_cast<int>(layers) + 1, [&](int task, int) {
    {
      absl::MutexLock lock(&mutex);
      if (!status.ok()) return;
    }
    const absl::Status result = read(task == 0 ? std::nullopt : std::optional<uint32_t>(task - 1));
    absl::MutexLock lock(&mutex);
    status.Update(result);
    ++done;
    if (status.ok() && progress) progress(static_cast<int>(100 * done / (layers + 1)));
  });
  return status;
}

}  // namespace folio::model
