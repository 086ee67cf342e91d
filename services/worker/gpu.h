// The GPU that a worker computes on. Whatever knows CUDA is behind these interfaces: a worker is
// built without it as well, and tests bring a GPU of their own.
#ifndef FOLIO_SERVICES_WORKER_GPU_H_
#define FOLIO_SERVICES_WORKER_GPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/views.h"
#include "services/collective/collective.h"
#include "services/model/executor.h"
#include "services/model/model_source.h"
#include "services/model/shard.h"
#include "services/model/tensor_reader.h"
#include "services/worker/rank_group.h"

namespace folio::worker {

struct GpuFacts {
  int number = 0;    // as this process counts: CUDA_VISIBLE_DEVICES has a say in it
  std::string uuid;  // "GPU-...", the same in every process
  std::string name;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // when it was opened

  std::string ToString() const;  // "cuda:0 NVIDIA H200"
};

// A rank's pages in the memory of a GPU, mapped for it, and the host's score board within its
// reach. Nothing on the GPU may use them once this is destroyed; any thread may do that.
class GpuPages {
 public:
  virtual ~GpuPages() = default;
  // The GPU's addresses.
  virtual std::byte* pages() const = 0;
  virtual float* scores() const = 0;
};

// A model's weights on a GPU. Not thread-safe: it and its executors are used by one thread at a
// time.
class GpuModel {
 public:
  virtual ~GpuModel() = default;
  virtual uint64_t weight_bytes() const = 0;
  // As one rank of `host`, which outlives the result: what the GPUs of all ranks exchange in steps
  // of up to `max_rows` rows. All ranks make it together; `shards` are those of all, and the model
  // is of this rank's. RESOURCE_EXHAUSTED names what did not fit, UNAVAILABLE and DEADLINE_EXCEEDED
  // say why they did not meet.
  virtual absl::StatusOr<std::shared_ptr<model::CudaExchange>> MeetRanks(
      const std::vector<model::Shard>& shards, collective::Collective& host,
      uint32_t max_rows) const = 0;
  // Shares the weights. `pool` has the GPU's addresses and outlives it. `exchange` is a rank's,
  // null for the only one. RESOURCE_EXHAUSTED names what did not fit.
  virtual absl::StatusOr<std::unique_ptr<model::Executor>> MakeExecutor(
      const kernels::PoolView& pool, uint32_t max_rows,
      std::shared_ptr<model::CudaExchange> exchange) const = 0;
};

// Outlives what it gives. Not thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual const GpuFacts& facts() const = 0;
  // On `threads` threads. RESOURCE_EXHAUSTED says what did not fit, INVALID_ARGUMENT what is not
  // served; the source's own errors pass through.
  virtual absl::StatusOr<std::unique_ptr<GpuModel>> Load(const model::ModelSource& source,
                                                         int threads,
                                                         const model::LoadProgress& progress) = 0;
  // Maps the memory of a descriptor that the manager gave, all its `bytes`. `board` is mapped by
  // the caller, and outlives the result. FAILED_PRECONDITION: it is not such memory.
  virtual absl::StatusOr<std::unique_ptr<GpuPages>> Import(int fd, size_t bytes, void* board,
                                                           size_t board_bytes) = 0;
};

// Those that this process sees.
class Gpus {
 public:
  virtual ~Gpus() = default;
  // By number. FAILED_PRECONDITION says what is missing: CUDA in this program, a driver, a GPU.
  virtual absl::StatusOr<std::vector<std::string>> Uuids() = 0;
  // `memory` in bytes: what may be taken of the GPU's, without the pool; 0: whatever is free.
  // FAILED_PRECONDITION: there is no such GPU, or it is too old. No process may fork after this.
  virtual absl::StatusOr<std::unique_ptr<Gpu>> Open(int number, uint64_t memory) = 0;
};

// As this program was built: by CUDA, or none. Linked apart from the rest of the worker.
std::unique_ptr<Gpus> BuiltInGpus();

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_GPU_H_
