// MirrorJournal keeps what a journal is told in memory, as a next manager would read it.
#ifndef FOLIO_TESTS_CACHE_MIRROR_JOURNAL_H_
#define FOLIO_TESTS_CACHE_MIRROR_JOURNAL_H_

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/cache/journal.h"
#include "services/cache/restoration.h"
#include "services/cache/saved_sequence.h"

namespace folio::cache {

class MirrorJournal final : public Journal {
 public:
  void OnState(const SequenceRecord& record) override {
    sequences_.insert_or_assign(record.id, Save(record));
  }
  void OnChange(const SavedChange& change) override {
    const auto it = sequences_.find(change.sequence);
    error_.Update(it == sequences_.end()
                      ? absl::InternalError(absl::StrCat("unknown ", change.sequence.value()))
                      : it->second.Apply(change));
  }
  void OnEnd(SequenceId sequence) override {
    if (sequences_.erase(sequence) == 0) {
      error_.Update(absl::InternalError(absl::StrCat("ended twice: ", sequence.value())));
    }
  }
  void OnQuarantine(WorkerId owner, const PageList& pages,
                    const std::vector<SwapSlot>& slots) override {
    quarantines_.push_back({owner, pages, slots});
  }

  void OnQuarantineEnd(WorkerId owner) override {
    std::erase_if(quarantines_, [owner](const auto& one) { return one.owner == owner; });
  }

  // Everything, for a next manager, whose coordinator tells all of it again. `workers` are those
  // that are not known to have ended.
  SavedCache Take(const std::vector<WorkerId>& workers) {
    SavedCache saved;
    for (const WorkerId worker : workers) saved.workers.push_back({worker, "lost"});
    for (auto& [id, sequence] : std::exchange(sequences_, {})) {
      saved.sequences.push_back(std::move(sequence));
    }
    for (SavedQuarantine& one : std::exchange(quarantines_, {})) {
      for (const WorkerId worker : workers) {
        if (worker == one.owner) saved.quarantines.push_back(one);
      }
    }
    return saved;
  }

  const std::map<SequenceId, SavedSequence>& sequences() const { return sequences_; }
  const std::vector<SavedQuarantine>& quarantines() const { return quarantines_; }
  const absl::Status& error() const { return error_; }

 private:
  std::map<SequenceId, SavedSequence> sequences_;
  std::vector<SavedQuarantine> quarantines_;
  absl::Status error_;
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_MIRROR_JOURNAL_H_
