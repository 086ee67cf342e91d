// StateDirectory is the folder in which a manager keeps its journal, as files with ascending
// numbers. One manager has it at a time.
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_STATE_DIRECTORY_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_STATE_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/unique_fd.h"

namespace folio::manager {

// Thread-compatible. The kernel ends the lock with the process.
class StateDirectory {
 public:
  // Makes the folder if there is none, for this user alone. FAILED_PRECONDITION if another manager
  // has it, which names its process.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(const std::string& path);

  std::string FileOf(uint64_t number) const;
  // The numbers of the files that are there, ascending.
  std::vector<uint64_t> Files() const;
  // 0 if it is not there.
  uint64_t SizeOf(uint64_t number) const;
  // NOT_FOUND and the like name the file.
  absl::StatusOr<std::string> Read(uint64_t number) const;
  // A new file to append to. ALREADY_EXISTS and the like name the file.
  absl::StatusOr<UniqueFd> Create(uint64_t number) const;
  // A file that is not there is no error.
  void Remove(uint64_t number) const;

  const std::string& path() const { return path_; }

 private:
  StateDirectory(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const UniqueFd lock_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_STATE_DIRECTORY_H_
