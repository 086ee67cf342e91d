// Restoration gives a new coordinator the sequences of the manager before it, as that one's journal
// has them. Each becomes an orphan of its worker, which its client may ask for, or it ends if it
// could not outlive its worker either. README.md says why an orphan can be continued.
//
// A worker of the old manager may still run and write pages. Until ConfirmExited names it, its
// sequences cannot be claimed and its quarantined pages stay out of use, as with any lost worker.
#ifndef FOLIO_SERVICES_CACHE_RESTORATION_H_
#define FOLIO_SERVICES_CACHE_RESTORATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/base/ids.h"
#include "services/cache/coordinator.h"
#include "services/cache/saved_sequence.h"

namespace folio::cache {

// A worker of the old manager that is not known to have ended.
struct LostWorker {
  WorkerId id;
  std::string name;
};

struct SavedQuarantine {
  WorkerId owner;
  PageList pages;
  std::vector<SwapSlot> slots;
};

struct SavedCache {
  std::vector<SavedSequence> sequences;
  std::vector<LostWorker> workers;
  std::vector<SavedQuarantine> quarantines;
  // The pages have what the sequences say, or will have it when the memory comes back. Otherwise
  // every sequence is computed again from its tokens.
  bool has_contents = true;
};

struct Restored {
  uint32_t kept = 0;   // with what their pages hold
  uint32_t again = 0;  // to be computed again
  uint32_t ended = 0;
  bool has_contents = false;
};

class Restoration {
 public:
  // Borrows the coordinator.
  explicit Restoration(Coordinator& coordinator) : coordinator_(coordinator) {}

  // Once, before any other call of the coordinator. If two sequences have one page, which only a
  // broken journal says, nothing of the contents is believed. A sequence whose own record does not
  // fit together is computed again.
  Restored Restore(SavedCache saved);
  // Makes the decisions that the old manager had begun or owed. The score board must be there.
  // Returns how many they were. No sequence may be claimed before.
  uint32_t Decide();
  // Tells the journal up to `most` sequences again, from the one behind `last` on. Returns the last
  // one, or nothing when all have been told.
  std::optional<SequenceId> TellAgain(SequenceId last, uint32_t most);
  // The memory has not come back, so all restored sequences will be computed again, and workers of
  // the old manager can harm nothing. Returns how many sequences lost their contents.
  uint32_t LoseContents(const std::vector<WorkerId>& workers);

 private:
  // Takes the pages of all, if they and the slots are each named once.
  bool Adopt(const SavedCache& saved);
  // Whether the sequence is one that a manager can have had. It then has what it is promised.
  bool Believe(Sequence& sequence);
  void RestoreOne(SavedSequence saved, bool has_contents, SteadyTime now, Restored& restored);

  Coordinator& coordinator_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_RESTORATION_H_
