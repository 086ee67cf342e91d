// Acknowledged is a file beside a journal that says how long the journal was when its last reply
// could leave. A shorter journal has lost entries that somebody has heard of, and is damaged. A
// longer one ends with a write that the manager has died in, which nothing has heard of.
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_ACKNOWLEDGED_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_ACKNOWLEDGED_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/unique_fd.h"

namespace folio::manager {

// Thread-compatible.
class Acknowledged {
 public:
  // The journal's file of this number has at least so many bytes.
  struct Mark {
    uint64_t number = 0;
    uint64_t bytes = 0;
  };
  static std::string FileOf(const std::string& directory) { return directory + "/acknowledged"; }

  // `directory` is the path of a StateDirectory.
  explicit Acknowledged(const std::string& directory) : path_(FileOf(directory)) {}

  // Takes the place of the mark before, in one write. The errors of the file system name the file.
  absl::Status Store(const Mark& mark);
  // The mark that was stored last, or nothing if none was. DATA_LOSS if the file is damaged.
  absl::StatusOr<std::optional<Mark>> Read() const;

 private:
  const std::string path_;
  UniqueFd file_;  // invalid before the first Store
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_ACKNOWLEDGED_H_
