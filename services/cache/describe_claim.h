// DescribeClaim is all that the worker that has just claimed a sequence is told of it.
#ifndef FOLIO_SERVICES_CACHE_DESCRIBE_CLAIM_H_
#define FOLIO_SERVICES_CACHE_DESCRIBE_CLAIM_H_

#include "services/cache/claim.h"
#include "services/cache/sequence_record.h"

namespace folio::cache {

Claimed DescribeClaim(const SequenceRecord& record);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_DESCRIBE_CLAIM_H_
