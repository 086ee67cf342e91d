// These functions read the manager's record of a sequence that another worker left.
//
// The record holds what that worker committed: tables, lengths and positions, with K, V and scores
// in the pages. Tokens behind it are computed again into the places that they had, and sampled
// tokens that the client did not receive are sent from the record.
//
// Another process wrote all of it, and the manager, which has no model, cannot judge most of it. So
// whatever a step or a kernel relies on is checked here. A record that fails ends its sequence: the
// worker closes it at the manager, so that it cannot take the next worker down.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_CLAIM_RECORD_H_
#define FOLIO_SERVICES_WORKER_ENGINE_CLAIM_RECORD_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/geometry.h"
#include "services/base/prompt_stops.h"
#include "services/base/session_types.h"
#include "services/worker/engine/sequence_request.h"

namespace folio::worker {

// RecordLimits is this worker's model as far as records are checked against it.
struct RecordLimits {
  uint32_t vocab = 0;
  uint32_t context = 0;
};

// Fills in the request with what the first client and the operator chose, and returns the tokens
// that were sampled. INTERNAL names the part of a record that no worker of this model could have
// left: tokens, lengths, sampling parameters or output options. INVALID_ARGUMENT, naming
// resume.received_tokens, if the client received other tokens than were sampled.
absl::StatusOr<std::vector<TokenId>> TakeRequest(const ClaimResult& record,
                                                 const RecordLimits& limits,
                                                 SequenceRequest* request);

// OK if the tables fit the pool and the record's length, and have room for the next `prefill_ahead`
// tokens of the prompt, or for those up to its next stop; else INTERNAL.
absl::Status ValidateTables(const ClaimResult& record, const CacheGeometry& geometry,
                            uint32_t num_pages, const PromptStops& stops, uint32_t prefill_ahead);

// OK if the last `queries` tokens of the prompt, which score it in one chunk, are all computed or
// all still to be computed; else INTERNAL.
absl::Status ValidateWindow(const ClaimResult& record, uint32_t queries);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_CLAIM_RECORD_H_
