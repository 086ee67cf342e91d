// MakeNcclCommunicator makes the communicator between GPUs by NCCL. It is a library of its own,
// because a worker of one GPU does not need NCCL.
#ifndef FOLIO_SERVICES_MODEL_CUDA_NCCL_COMMUNICATOR_H_
#define FOLIO_SERVICES_MODEL_CUDA_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/collective/collective.h"
#include "services/model/cuda/cuda_communicator.h"
#include "services/model/cuda/cuda_model.h"
#include "services/model/tp/shard.h"

namespace folio::model {

// All ranks of `host` make one together; the leader sends the others NCCL's id over `host`. It
// serves steps of up to `max_rows` rows of executors of `model`, one executor at a time. `shards`
// are those of all ranks. `host` must outlive it: the ranks vote over it, in the order of the
// steps, and a watcher thread aborts the communicator when `host` fails or a rank dies. `timeout`
// bounds how long the ranks may take to connect, and how far a rank may lag within a step. Graphs
// that contain its calls are destroyed before it.
//
// Short sums go to the other ranks' GPUs without NCCL where these reach each other (see
// peer_sums.h), unless `use_peers` is false, the same on all ranks.
//
// RESOURCE_EXHAUSTED names what did not fit. Other errors are those of `host` and of NcclGroup.
absl::StatusOr<std::shared_ptr<CudaCommunicator>> MakeNcclCommunicator(
    std::shared_ptr<CudaModel> model, std::vector<Shard> shards, collective::Collective& host,
    uint32_t max_rows, absl::Duration timeout = absl::Seconds(30), bool use_peers = true);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_NCCL_COMMUNICATOR_H_
