// These functions read the manager's record of a sequence that another worker left.
//
// The record holds what that worker committed: tables, lengths and positions, with K, V and scores
// in the pages. Tokens behind it are computed again into the places that they had, and sampled
// tokens that the client did not receive are sent from the record.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_CLAIM_RECORD_H_
#define FOLIO_SERVICES_WORKER_ENGINE_CLAIM_RECORD_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/geometry.h"
#include "services/base/session_types.h"
#include "services/worker/engine/sequence_request.h"

namespace folio::worker {

// Fills in the request with what the first client and the operator chose, and returns the tokens
// that were sampled. INTERNAL for a record that no worker could have left; INVALID_ARGUMENT, naming
// resume.received_tokens, if the client received other tokens than were sampled.
absl::StatusOr<std::vector<TokenId>> TakeRequest(const ClaimResult& record,
                                                 SequenceRequest* request);

// OK if the tables fit the pool and the record's length, and have room for the rest of the prompt;
// else INTERNAL.
absl::Status ValidateTables(const ClaimResult& record, const CacheGeometry& geometry,
                            uint32_t num_pages);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_CLAIM_RECORD_H_
