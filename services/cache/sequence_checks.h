// CheckCommit decides whether a worker may commit, and CheckSettings what a client may choose. They
// read the record and change nothing. The coordinator's lock guards the record.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_CHECKS_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_CHECKS_H_

#include "absl/status/status.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/sequence_record.h"

namespace folio::cache {

// INVALID_ARGUMENT for settings that a sequence of such a model cannot have.
absl::Status CheckSettings(const policy::CacheConfig& cache, const CacheGeometry& geometry);

// FAILED_PRECONDITION says what was expected and what came.
absl::Status CheckCommit(const SequenceRecord& record, const CommitTokens& request);

// Whether the commit is right and makes nothing due, no page, plan or answer to a shortage. If not,
// CheckCommit may still be content with it.
bool IsQuiet(const SequenceRecord& record, const CommitTokens& request);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_CHECKS_H_
