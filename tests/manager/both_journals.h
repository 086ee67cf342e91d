// Both is a journal that tells two others the same, one to test and one to compare with.
#ifndef FOLIO_TESTS_MANAGER_BOTH_JOURNALS_H_
#define FOLIO_TESTS_MANAGER_BOTH_JOURNALS_H_

#include <vector>

#include "services/cache/journal.h"

namespace folio::manager {

// Borrows them.
class Both final : public cache::Journal {
 public:
  Both(cache::Journal& first, cache::Journal& second) : first_(first), second_(second) {}
  void OnState(const cache::SequenceRecord& record) override {
    first_.OnState(record);
    second_.OnState(record);
  }
  void OnChange(const cache::SavedChange& change) override {
    first_.OnChange(change);
    second_.OnChange(change);
  }
  void OnEnd(SequenceId sequence) override {
    first_.OnEnd(sequence);
    second_.OnEnd(sequence);
  }
  void OnQuarantine(WorkerId owner, const PageList& pages,
                    const std::vector<SwapSlot>& slots) override {
    first_.OnQuarantine(owner, pages, slots);
    second_.OnQuarantine(owner, pages, slots);
  }
  void OnQuarantineEnd(WorkerId owner) override {
    first_.OnQuarantineEnd(owner);
    second_.OnQuarantineEnd(owner);
  }

 private:
  cache::Journal& first_;
  cache::Journal& second_;
};

}  // namespace folio::manager

#endif  // FOLIO_TESTS_MANAGER_BOTH_JOURNALS_H_
