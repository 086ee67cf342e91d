// CheckSequence tells whether a sequence is consistent, with itself and with the pool. The
// coordinator's lock guards its record.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_INVARIANTS_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_INVARIANTS_H_

#include <vector>

#include "absl/status/status.h"
#include "services/cache/page_pool.h"
#include "services/cache/sequence.h"
#include "services/cache/sequence_record.h"

namespace folio::cache {

// INTERNAL names the first broken invariant. Marks each page that the sequence holds in `seen`, by
// page id, so that a page held twice is found across sequences.
absl::Status CheckSequence(const Sequence& sequence, const PagePool& pool, std::vector<bool>& seen);

// The part of that which concerns the record alone and holds at every moment, also before a
// decision that is due. After it, contents that were read from a journal can be believed.
absl::Status CheckContents(const SequenceRecord& record);

// Nothing is due to the sequence except what a full page brings.
bool OnlyDecodes(const SequenceRecord& record);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_INVARIANTS_H_
