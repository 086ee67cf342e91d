// RankGroup is the tensor-parallel group that a worker's rank belongs to. Each rank is a process
// with its shard of the model; rank 0 leads. See services/worker/ranks for how a group forms.
#ifndef FOLIO_SERVICES_WORKER_DEVICE_RANK_GROUP_H_
#define FOLIO_SERVICES_WORKER_DEVICE_RANK_GROUP_H_

#include <cstdint>
#include <memory>

#include "services/base/ids.h"
#include "services/collective/collective.h"

namespace folio::model {
class CudaCommunicator;
}  // namespace folio::model

namespace folio::worker {

// A rank's index and the size of its group, which is 1 if there is no group.
struct TpRank {
  Rank rank;
  uint32_t ranks = 1;
};

// It is destroyed before the collective and after the executors that use it.
struct RankGroup {
  collective::Collective* host = nullptr;         // between the processes, in host memory
  std::shared_ptr<model::CudaCommunicator> gpus;  // between their GPUs; null for CPUs
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_DEVICE_RANK_GROUP_H_
