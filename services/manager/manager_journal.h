// ManagerJournal writes the record of the pool, its workers and its sequences, and the quotas that
// operators set, to the files of a state directory, from which the next manager continues
// (recovery.h).
//
// A reply to a worker leaves after a flush of the files, so a worker never knows more than the
// journal. A file that has grown is followed by a new one, to which every sequence is told again
// while others run.
#ifndef FOLIO_SERVICES_MANAGER_MANAGER_JOURNAL_H_
#define FOLIO_SERVICES_MANAGER_MANAGER_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "folio/state/v1/journal.pb.h"
#include "services/cache/journal.h"
#include "services/cache/restoration.h"
#include "services/cache/tenant_quotas.h"
#include "services/manager/journal/journal_files.h"
#include "services/manager/journal/state_directory.h"
#include "services/manager/recovery.h"

namespace folio::manager {

// Thread-safe. Its lock is taken inside the coordinator's, and is held during a write only while a
// new file begins.
class ManagerJournal final : public cache::Journal {
 public:
  static constexpr size_t kLeastFileBytes = size_t{16} << 20;

  // Takes the directory and begins a file. The old ones stay until EndFile. `before` is what they
  // say, of which the ids and the quotas count here.
  ManagerJournal(std::unique_ptr<StateDirectory> directory, const Recovered& before,
                 size_t least_file_bytes = kLeastFileBytes);

  void OnState(const cache::SequenceRecord& record) override;
  void OnChange(const cache::SavedChange& change) override;
  void OnEnd(SequenceId sequence) override;
  void OnQuarantine(WorkerId owner, const PageList& pages,
                    const std::vector<SwapSlot>& slots) override;
  void OnQuarantineEnd(WorkerId owner) override;

  // A new pool, without workers and sequences.
  void OnPool(const folio::state::v1::JournalPool& pool);
  void OnWorker(const folio::state::v1::JournalWorker& worker);
  void OnWorkerGone(WorkerId worker);
  // An operator has set it. One without limits is forgotten.
  void OnQuota(const std::string& tenant, const cache::Quota& quota);

  // All sequences are told again between the two. See JournalFiles::wants_new_file.
  void BeginFile();
  void EndFile();

  JournalFiles& files() { return files_; }

 private:
  // The entries with which each file begins, as frames.
  std::string Head(const JournalFiles::FileBefore& before) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  JournalFiles files_;
  const uint64_t manager_boot_;

  absl::Mutex mu_;
  cache::LastIds last_ids_ ABSL_GUARDED_BY(mu_);
  std::optional<folio::state::v1::JournalPool> pool_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, folio::state::v1::JournalWorker> workers_ ABSL_GUARDED_BY(mu_);
  std::vector<cache::SavedQuarantine> quarantines_ ABSL_GUARDED_BY(mu_);
  cache::QuotasByTenant quotas_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MANAGER_JOURNAL_H_
