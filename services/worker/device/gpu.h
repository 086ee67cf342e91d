// Gpu is the GPU that a worker computes on. All code that knows CUDA is behind the interfaces of
// this header, so that a worker can be built without CUDA and tests can bring a GPU of their own.
#ifndef FOLIO_SERVICES_WORKER_DEVICE_GPU_H_
#define FOLIO_SERVICES_WORKER_DEVICE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/device_info.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"
#include "services/collective/collective.h"
#include "services/model/executor/executor.h"
#include "services/model/source/model_source.h"
#include "services/model/source/stored_matrices.h"
#include "services/model/source/tensor_reader.h"
#include "services/model/tp/shard.h"
#include "services/worker/device/rank_group.h"

namespace folio::worker {

using kernels::cuda::DeviceInfo;

// GpuPages is a rank's pages in the memory of a GPU, with the host's score board and swap memory,
// all mapped for the GPU. The GPU must not use them after this is destroyed. Any thread may destroy
// it.
class GpuPages {
 public:
  virtual ~GpuPages() = default;
  // Addresses on the GPU.
  virtual std::byte* pages() const = 0;
  virtual float* scores() const = 0;
};

// GpuModel is a model's weights on a GPU. Not thread-safe: one thread at a time uses it and its
// executors.
class GpuModel {
 public:
  virtual ~GpuModel() = default;
  virtual uint64_t weight_bytes() const = 0;
  virtual const model::HeldMatrices& held() const = 0;
  // Connects the GPUs of all ranks of `host`, for steps of up to `max_rows` rows. All ranks call it
  // together. `shards` are those of all ranks, and this model is this rank's shard. `host` must
  // outlive the result. RESOURCE_EXHAUSTED names what did not fit. UNAVAILABLE and
  // DEADLINE_EXCEEDED say why the ranks could not connect.
  virtual absl::StatusOr<std::shared_ptr<model::CudaCommunicator>> MakeCommunicator(
      const std::vector<model::Shard>& shards, collective::Collective& host,
      uint32_t max_rows) const = 0;
  // The executor shares the weights. `pool` has addresses on the GPU and must outlive the executor.
  // Without `decode_kernels` libraries serve all steps. `communicator` is null for a worker of one
  // rank. RESOURCE_EXHAUSTED names what did not fit.
  virtual absl::StatusOr<std::unique_ptr<model::Executor>> MakeExecutor(
      const kernels::PoolView& pool, uint32_t max_rows, bool decode_kernels,
      std::shared_ptr<model::CudaCommunicator> communicator) const = 0;
};

// It must outlive what it returns. Not thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual const DeviceInfo& info() const = 0;
  // Loads on `threads` threads. The matrices of layers have the type `weights`, bf16 or E4M3, and
  // with bf16 they may stay as they are stored.
  // RESOURCE_EXHAUSTED says what did not fit, and INVALID_ARGUMENT or UNIMPLEMENTED what the
  // kernels or the GPU do not serve. Errors of the source pass through.
  virtual absl::StatusOr<std::unique_ptr<GpuModel>> Load(const model::ModelSource& source,
                                                         kernels::cuda::DataType weights,
                                                         model::HeldWeights held, int threads,
                                                         const model::LoadProgress& progress) = 0;
  // Maps all `bytes` of a descriptor that the manager gave. The caller has mapped `board` and
  // `swap`, which may be empty. They must outlive the result. FAILED_PRECONDITION: the descriptor
  // is not memory of a GPU.
  virtual absl::StatusOr<std::unique_ptr<GpuPages>> Import(int fd, size_t bytes,
                                                           absl::Span<std::byte> board,
                                                           absl::Span<std::byte> swap) = 0;
};

// Gpus is the GPUs that this process sees.
class Gpus {
 public:
  virtual ~Gpus() = default;
  // In the order of their numbers. FAILED_PRECONDITION says whether CUDA in this program, a driver
  // or a GPU is missing.
  virtual absl::StatusOr<std::vector<std::string>> Uuids() = 0;
  // `memory` is the most bytes of the GPU's memory that may be taken, without the pool. 0 sets
  // no limit. FAILED_PRECONDITION: there is no such GPU, or it is too old. No process may fork
  // after this, because a CUDA context does not survive a fork.
  virtual absl::StatusOr<std::unique_ptr<Gpu>> Open(int number, uint64_t memory) = 0;
};

// The GPUs of this build. A build without CUDA sees none. The program links one of the
// two definitions.
std::unique_ptr<Gpus> BuiltInGpus();

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_DEVICE_GPU_H_
