// NamedPages are pages and slots of swap memory that have an owner already, while a journal is
// read. The functions below sort out whose they are by it.
#ifndef FOLIO_SERVICES_MANAGER_NAMED_PAGES_H_
#define FOLIO_SERVICES_MANAGER_NAMED_PAGES_H_

#include <map>
#include <set>
#include <vector>

#include "services/base/ids.h"
#include "services/base/sequence_types.h"
#include "services/cache/restoration.h"

namespace folio::manager {

// Not thread-safe.
class NamedPages {
 public:
  void Add(const PageList& pages) {
    for (const PageRef page : pages) pages_.insert(page.page);
  }
  void Add(const std::vector<SwapSlot>& slots) { slots_.insert(slots.begin(), slots.end()); }
  // Leaves what has no owner yet.
  void TakeFrom(cache::SavedQuarantine& quarantine) const {
    std::erase_if(quarantine.pages, [this](PageRef page) { return pages_.contains(page.page); });
    std::erase_if(quarantine.slots, [this](SwapSlot slot) { return slots_.contains(slot); });
  }

 private:
  std::set<PageId> pages_;
  std::set<SwapSlot> slots_;
};

// Adds the quarantines of the file before to those of the next one, which names those that are left
// again, and may be cut off before it has named all.
void MoveQuarantines(std::vector<cache::SavedQuarantine> before,
                     std::vector<cache::SavedQuarantine>* known);

// A manager may have died after it wrote that a sequence's pages are in quarantine, and before it
// wrote that the sequence has them no more. As the sequence's, they wait for the same worker.
void DropUnfinishedQuarantines(const std::map<SequenceId, cache::SavedSequence>& sequences,
                               std::vector<cache::SavedQuarantine>* quarantines);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_NAMED_PAGES_H_
