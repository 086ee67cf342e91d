// Which GPU a rank of a worker computes on: the one that its pages at the manager are in memory of.
#ifndef FOLIO_SERVICES_WORKER_GPU_CHOICE_H_
#define FOLIO_SERVICES_WORKER_GPU_CHOICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/worker/gpu.h"
#include "services/worker/rank_group.h"

namespace folio::worker {

// --device: the CPU, a GPU by its number, or the one that the rank's pages are on.
struct DeviceChoice {
  bool cuda = false;
  std::optional<int> number = std::nullopt;
  uint64_t gpu_memory = 0;  // see Gpus::Open

  std::string ToString() const;  // "cpu", "cuda", "cuda:1"
};

// Opens the GPU of `choice`, which is no CPU, for the rank. The manager is asked whose memory its
// pages are, or will be, in, before anything is loaded that no pool would go with; it is waited for
// as in RetryWhileUnavailable. FAILED_PRECONDITION: there is no GPU, or the pages are somewhere
// else; it names --device and the way out.
absl::StatusOr<std::unique_ptr<Gpu>> OpenGpu(Gpus& gpus, const DeviceChoice& choice,
                                             const RankOf& of,
                                             const std::shared_ptr<grpc::Channel>& manager,
                                             absl::Duration timeout,
                                             const std::function<bool()>& stop);

// OK if a worker that computes on `gpu` (null: the CPU) can use pages in memory of the GPU `uuid`
// (empty: in host memory). FAILED_PRECONDITION says what to start otherwise.
absl::Status CheckPagesAreOn(const Gpu* gpu, const std::string& uuid);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_GPU_CHOICE_H_
