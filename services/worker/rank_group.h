// One of a worker's tensor-parallel ranks, and the others it works with.
#ifndef FOLIO_SERVICES_WORKER_RANK_GROUP_H_
#define FOLIO_SERVICES_WORKER_RANK_GROUP_H_

#include <cstdint>
#include <memory>

#include "services/collective/collective.h"
#include "services/common/ids.h"

namespace folio::model {
class CudaExchange;
}  // namespace folio::model

namespace folio::worker {

struct RankOf {
  Rank rank;
  uint32_t ranks = 1;
};

// Of ranks that have met. Goes before its collective and after the executors that use it.
struct RankGroup {
  collective::Collective* host = nullptr;
  std::shared_ptr<model::CudaExchange> on_gpus;  // null: they compute on the CPU
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RANK_GROUP_H_
