// The exchange between ranks by NCCL. Linked apart from the executor: who has one GPU needs no
// NCCL.
#ifndef FOLIO_SERVICES_MODEL_NCCL_EXCHANGE_H_
#define FOLIO_SERVICES_MODEL_NCCL_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/collective/collective.h"
#include "services/model/cuda_exchange.h"
#include "services/model/cuda_model.h"
#include "services/model/shard.h"

namespace folio::model {

// For steps of up to `max_rows` rows of executors of `model`, one at a time; `shards` are those of
// all ranks. All ranks of `host` make one together: over it they are told where to meet. It
// outlives the exchange: when it ends or a rank of it has gone, so ends this one, from a thread of
// its own. RESOURCE_EXHAUSTED names what did not fit; otherwise errors are those of `host` and of
// NcclGroup, and then the other ranks wait for `patience` at most, or until `host` ends. So long a
// rank may also be behind in a step.
absl::StatusOr<std::shared_ptr<CudaExchange>> MakeNcclExchange(
    std::shared_ptr<CudaModel> model, std::vector<Shard> shards, collective::Collective& host,
    uint32_t max_rows, absl::Duration patience = absl::Seconds(30));

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_NCCL_EXCHANGE_H_
