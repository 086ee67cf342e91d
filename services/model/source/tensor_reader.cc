#include "services/model/source/tensor_reader.h"

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
std::vector<T> TensorReader::Take(absl::StatusOr<std::vector<T>> read, Role role) {
  const RoleInfo& info = InfoOf(role);
  const ModelConfig& config = source_.config();
  const size_t want = size_t{SizeOf(info.rows, config)} * SizeOf(info.cols, config);
  if (!read.ok()) {
    status_.Update(read.status());
  } else if (read->size() != want) {
    status_.Update(WrongSize(info.name, layer_, want, read->size()));
  }
  // The right size in any case, so that packing works until the error is seen.
  if (!status_.ok()) return std::vector<T>(want);
  return *std::move(read);
}

ScaledMatrix TensorReader::Scaled(Role role) {
  absl::StatusOr<ScaledMatrix> read = source_.ReadScaled(role, layer_);
  ScaledMatrix matrix;
  if (read.ok()) matrix.scales = std::move(read->scales);
  matrix.codes = Take(read.ok() ? absl::StatusOr<std::vector<kernels::e4m3>>(std::move(read->codes))
                                : read.status(),
                      role);
  matrix.scales.resize(SizeOf(InfoOf(role).rows, source_.config()));
  return matrix;
}

std::vector<kernels::bf16> TensorReader::Matrices(absl::Span<const Role> roles) {
  std::vector<kernels::bf16> all;
  for (const Role role : roles) {
    const std::vector<kernels::bf16> one = Matrix(role);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::vector<float> TensorReader::Vectors(absl::Span<const Role> roles) {
  std::vector<float> all;
  for (const Role role : roles) {
    const std::vector<float> one = Vector(role);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

absl::Status ReadParts(uint32_t layers, kernels::ThreadPool& threads, const LoadProgress& progress,
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
