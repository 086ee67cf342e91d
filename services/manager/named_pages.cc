#include "services/manager/named_pages.h"

#include <utility>

namespace folio::manager {

void MoveQuarantines(std::vector<cache::SavedQuarantine> before,
                     std::vector<cache::SavedQuarantine>* known) {
  NamedPages named;
  for (const cache::SavedQuarantine& one : *known) {
    named.Add(one.pages);
    named.Add(one.slots);
  }
  for (cache::SavedQuarantine& one : before) {
    named.TakeFrom(one);
    named.Add(one.pages);
    named.Add(one.slots);
    known->push_back(std::move(one));
  }
}

void DropUnfinishedQuarantines(const std::map<SequenceId, cache::SavedSequence>& sequences,
                               std::vector<cache::SavedQuarantine>* quarantines) {
  for (cache::SavedQuarantine& one : *quarantines) {
    NamedPages named;
    for (const auto& [id, sequence] : sequences) {
      if (sequence.request.worker != one.owner) continue;
      for (const cache::BlockTable& table : sequence.layers) named.Add(table.pages());
      named.Add(sequence.slots);
    }
    named.TakeFrom(one);
  }
}

}  // namespace folio::manager
