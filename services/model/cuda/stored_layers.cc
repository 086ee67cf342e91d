#include "services/model/cuda/stored_layers.h"

#include <iterator>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernels/cuda/quantized_matrix.h"
#include "services/model/family/role.h"

namespace folio::model {
namespace {

// Neighbours of one format become one part, which is one kernel less.
std::vector<StoredPart> InParts(StoredMatrices::Matrices matrices) {
  std::vector<StoredPart> parts;
  StoredMatrices::Matrices alike;
  for (auto& matrix : matrices) {
    if (!alike.empty() && matrix->format() != alike.front()->format()) {
      parts.emplace_back(std::exchange(alike, {}));
    }
    alike.push_back(std::move(matrix));
  }
  if (!alike.empty()) parts.emplace_back(std::move(alike));
  return parts;
}

// The kernel reads gates and ups side by side.
std::vector<StoredPart> EachAPart(StoredMatrices::Matrices matrices) {
  std::vector<StoredPart> parts;
  for (auto& matrix : matrices) {
    StoredMatrices::Matrices one;
    one.push_back(std::move(matrix));
    parts.emplace_back(std::move(one));
  }
  return parts;
}

}  // namespace

uint32_t StoredPart::rows() const {
  uint32_t rows = 0;
  for (const auto& matrix : matrices_) rows += matrix->n();
  return rows;
}

size_t StoredPart::bytes() const {
  return kernels::cuda::QuantizedAreas(format(), rows(), cols()).bytes;
}

std::vector<std::byte> StoredPart::Pack() const {
  std::vector<const kernels::QuantizedMatrix*> matrices;
  for (const auto& matrix : matrices_) matrices.push_back(matrix.get());
  std::vector<std::byte> packed(bytes());
  kernels::cuda::PackQuantized(matrices, absl::MakeSpan(packed));
  return packed;
}

absl::StatusOr<StoredLayers> FindStoredLayers(const ModelSource& source, HeldWeights held,
                                              kernels::ThreadPool& threads) {
  StoredLayers found;
  found.layers.resize(source.config().num_layers);
  if (held == HeldWeights::kBfloat16) return found;
  absl::Mutex mutex;  // guards status and found.held
  absl::Status status;
  threads.ParallelFor(static_cast<int>(found.layers.size()), [&](int index, int) {
    StoredLayer& layer = found.layers[static_cast<size_t>(index)];
    StoredMatrices stored(source, held, static_cast<uint32_t>(index));
    // The first one is exact, for the reason that CudaProducts::Qkv names.
    if (index > 0) layer.qkv = InParts(stored.Read(kQkvRoles));
    layer.out = InParts(stored.Read({Role::kAttentionOut}));
    layer.gate_up = EachAPart(stored.Read({Role::kGate, Role::kUp}, /*alike=*/true));
    layer.down = InParts(stored.Read({Role::kDown}));
    absl::MutexLock lock(&mutex);
    status.Update(stored.status());
    found.held.Add(stored.counts());
  });
  if (!status.ok()) return status;
  return found;
}

}  // namespace folio::model
