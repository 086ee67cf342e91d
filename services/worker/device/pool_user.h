// PoolUser describes the user of a pool: a rank of a model, on the CPU or on a GPU.
#ifndef FOLIO_SERVICES_WORKER_DEVICE_POOL_USER_H_
#define FOLIO_SERVICES_WORKER_DEVICE_POOL_USER_H_

#include "folio/v1/types.pb.h"
#include "services/model/tp/shard.h"
#include "services/worker/device/gpu.h"

namespace folio::worker {

// The objects it points to must outlive its attachments.
struct PoolUser {
  const folio::v1::ModelLayout* layout;
  const model::Shard* shard = nullptr;  // of this rank; null for a worker of one rank
  Gpu* gpu = nullptr;                   // null: the CPU computes
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_DEVICE_POOL_USER_H_
