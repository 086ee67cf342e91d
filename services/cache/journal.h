// Journal is told each change of a sequence that a next manager must know of to restore it, should
// this one die. services/manager/journal writes it to a file, and restoration.h reads it back.
#ifndef FOLIO_SERVICES_CACHE_JOURNAL_H_
#define FOLIO_SERVICES_CACHE_JOURNAL_H_

#include <vector>

#include "services/base/ids.h"
#include "services/base/sequence_types.h"

namespace folio::cache {

struct SavedChange;
struct SequenceRecord;

// Any thread may call, with the coordinator's lock held, in the order of the changes. So a method
// must be quick and must not call the coordinator.
class Journal {
 public:
  virtual ~Journal() = default;

  // The sequence is new, or is now as this record says, whatever was told before. The record is
  // valid during the call.
  virtual void OnState(const SequenceRecord& record) = 0;
  // A sequence that was told of has changed.
  virtual void OnChange(const SavedChange& change) = 0;
  // It has ended. Its pages are free, apart from those that OnQuarantine named just before.
  virtual void OnEnd(SequenceId sequence) = 0;
  // These pages and slots of swap memory left a sequence and wait for the end of `owner`, which
  // could still write them.
  virtual void OnQuarantine(WorkerId owner, const PageList& pages,
                            const std::vector<SwapSlot>& slots) = 0;
  // All of this owner's quarantine is free, because nothing of it can write any more.
  virtual void OnQuarantineEnd(WorkerId owner) = 0;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_JOURNAL_H_
