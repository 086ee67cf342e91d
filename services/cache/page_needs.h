// PageNeeds says how many pages a sequence should have now, how many it lacks, and how many it is
// promised. It reads the sequence's record and changes nothing.
//
// Borrows the record for the duration of a call under the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_PAGE_NEEDS_H_
#define FOLIO_SERVICES_CACHE_PAGE_NEEDS_H_

#include <cstddef>
#include <cstdint>

#include "services/cache/sequence_record.h"

namespace folio::cache {

class PageNeeds {
 public:
  explicit PageNeeds(const SequenceRecord& record) : record_(record) {}

  // Pages that the layer should hold now, or if it had so many resident tokens.
  uint64_t Wanted(size_t layer) const;
  uint64_t Wanted(size_t layer, uint32_t resident) const;
  // How many of them it lacks, over all layers.
  uint64_t Lacking() const;

  // Tokens that can be decoded before a page of some layer is full or missing.
  uint32_t QuietTokens() const;

  // Pages beyond those held that the sequence is promised, over all layers.
  uint64_t Promised() const { return record_.parked ? 0 : ToPromise(); }
  // The same as if it were not parked.
  uint64_t ToPromise() const;

 private:
  const SequenceRecord& record_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PAGE_NEEDS_H_
