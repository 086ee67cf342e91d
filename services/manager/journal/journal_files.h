// JournalFiles is the newest file of a state directory, to which frames are appended. They are only
// handed to the kernel, and never synced to a disk: they are to survive the process, and the pages
// that they tell of do not survive the machine.
//
// A journal whose writes fail leaves no file at all, because an old record would be worse than
// none.
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_JOURNAL_FILES_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_JOURNAL_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/base/steady_time.h"
#include "services/base/unique_fd.h"
#include "services/manager/journal/acknowledged.h"
#include "services/manager/journal/state_directory.h"

namespace folio::manager {

// JournalCounts is what became of a journal's writes since its process began.
struct JournalCounts {
  uint64_t entries = 0;  // that were appended, without those at the beginning of a file
  uint64_t bytes = 0;    // that were written
  uint64_t files = 0;    // that were begun
  uint64_t failures = 0;
  uint64_t file_bytes = 0;   // of the newest file
  absl::Status failed = {};  // OK while the journal works
};

// Thread-safe. The lock that Append takes is an innermost one, and is not held during a write.
class JournalFiles {
 public:
  // Without a file before BeginFile. A file of fewer than `least_bytes` is not worth a new one.
  JournalFiles(std::unique_ptr<StateDirectory> directory, size_t least_bytes);

  // Keeps a frame for the next Flush. After a failure nothing is kept.
  void Append(absl::string_view entry);
  // Everything appended before is in the file when this returns, and acknowledged, or the journal
  // has failed.
  void Flush();

  // The file has grown to four times of what it was when everything had been repeated in it, or a
  // write has failed some time ago.
  bool wants_new_file() const;
  // The file before one that begins.
  struct FileBefore {
    bool exists = false;
    uint64_t bytes = 0;  // that it should have
  };
  // Later frames go to a new file, which begins with `head`, whole frames. The caller then repeats
  // everything that is still true.
  void BeginFile(absl::FunctionRef<std::string(const FileBefore& before)> head);
  // That is done, so the files before this one go.
  void EndFile();

  bool failed() const { return !counts().failed.ok(); }
  JournalCounts counts() const;

 private:
  absl::Status Write(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mu_);
  void FlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mu_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mu_);

  const std::unique_ptr<StateDirectory> directory_;
  const size_t least_bytes_;

  absl::Mutex file_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  UniqueFd file_ ABSL_GUARDED_BY(file_mu_);  // invalid after a failure
  uint64_t number_ ABSL_GUARDED_BY(file_mu_) = 0;
  uint64_t before_bytes_ ABSL_GUARDED_BY(file_mu_) = 0;  // of the last manager's newest file
  Acknowledged acknowledged_ ABSL_GUARDED_BY(file_mu_);

  mutable absl::Mutex mu_;
  std::string waiting_ ABSL_GUARDED_BY(mu_);  // frames that are not written yet
  JournalCounts counts_ ABSL_GUARDED_BY(mu_);
  SteadyTime failed_at_ ABSL_GUARDED_BY(mu_);
  size_t whole_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // that the file had at EndFile
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_JOURNAL_FILES_H_
