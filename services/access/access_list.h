// AccessList is the file that --access names, with what a daemon makes of it.
#ifndef FOLIO_SERVICES_ACCESS_ACCESS_LIST_H_
#define FOLIO_SERVICES_ACCESS_ACCESS_LIST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/access/access_rules.h"
#include "services/access/changing_file.h"

namespace folio::access {

// Thread-safe.
class AccessList {
 public:
  struct Contents {
    AccessRules rules;
    uint64_t version = 1;  // counts up when the file has changed
  };

  // Errors as of ParseAccessRules and ChangingFile::Read. They name the file.
  static absl::StatusOr<std::unique_ptr<AccessList>> Open(const std::string& path);

  // The newest contents. A file that has changed is read again, at most once in
  // ChangingFile::kInterval. If the new one is wrong or gone, that is logged, and the old rules
  // count.
  std::shared_ptr<const Contents> Current() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit AccessList(const std::string& path) : file_(path) {}

  absl::Mutex mutex_;
  ChangingFile file_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Contents> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_ACCESS_LIST_H_
