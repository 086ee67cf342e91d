// Who is to use a pool: a rank of a model, on the CPU or on a GPU.
#ifndef FOLIO_SERVICES_WORKER_POOL_USER_H_
#define FOLIO_SERVICES_WORKER_POOL_USER_H_

#include "folio/v1/types.pb.h"
#include "services/model/shard.h"
#include "services/worker/gpu.h"

namespace folio::worker {

// What it points to outlives its attachments.
struct PoolUser {
  const folio::v1::ModelLayout* layout;
  const model::Shard* shard = nullptr;  // this rank's, of a worker that has several
  Gpu* gpu = nullptr;                   // that computes; null: the CPU
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_POOL_USER_H_
