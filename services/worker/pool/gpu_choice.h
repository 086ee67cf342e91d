// OpenGpu chooses and opens the GPU that a rank of a worker computes on: the one that holds the
// rank's pages at the manager.
#ifndef FOLIO_SERVICES_WORKER_POOL_GPU_CHOICE_H_
#define FOLIO_SERVICES_WORKER_POOL_GPU_CHOICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/worker/device/gpu.h"
#include "services/worker/device/rank_group.h"

namespace folio::worker {

// --device: the CPU, a GPU by its number, or the one that the rank's pages are on.
struct DeviceChoice {
  bool cuda = false;
  std::optional<int> number = std::nullopt;
  uint64_t gpu_memory = 0;  // see Gpus::Open

  std::string ToString() const;  // "cpu", "cuda", "cuda:1"
};

// Asks the manager where the pages are before weights are loaded, so that a mismatch fails early,
// and waits for the manager as RetryWhileUnavailable does. `choice` must not be the CPU.
// FAILED_PRECONDITION names --device and the fix: there is no GPU, or the pages are somewhere else.
absl::StatusOr<std::unique_ptr<Gpu>> OpenGpu(Gpus& gpus, const DeviceChoice& choice,
                                             const TpRank& of,
                                             const std::shared_ptr<grpc::Channel>& manager,
                                             absl::Duration timeout,
                                             const std::function<bool()>& stop);

// OK if a worker that computes on `gpu` (null: the CPU) can use pages in memory of the GPU `uuid`
// (empty: in host memory). FAILED_PRECONDITION says what to start otherwise.
absl::Status CheckPagesAreOn(const Gpu* gpu, const std::string& uuid);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_POOL_GPU_CHOICE_H_
