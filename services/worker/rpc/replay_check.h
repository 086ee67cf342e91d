// CheckReplay judges the tokens that a client has of an answer whose sequence is gone.
#ifndef FOLIO_SERVICES_WORKER_RPC_REPLAY_CHECK_H_
#define FOLIO_SERVICES_WORKER_RPC_REPLAY_CHECK_H_

#include "absl/status/status.h"
#include "folio/v1/inference.pb.h"
#include "services/worker/engine/sequence_request.h"
#include "services/worker/rpc/request_check.h"

namespace folio::worker {

// Fills in `replayed` of a request that is otherwise checked. FAILED_PRECONDITION if the answer was
// begun with another model. INVALID_ARGUMENT if the tokens cannot be the first ones of it, or if
// the seed of the first time is missing. RESOURCE_EXHAUSTED if their format takes longer than the
// step loop allows. A message without such tokens is OK. Thread-safe.
absl::Status CheckReplay(const folio::v1::GenerateRequest& request, const ModelLimits& limits,
                         SequenceRequest* checked);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_REPLAY_CHECK_H_
