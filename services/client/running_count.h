// RunningCount counts the calls of a client that run, so that its destructor can wait for them. It
// is for the clients of this folder.
#ifndef FOLIO_SERVICES_CLIENT_RUNNING_COUNT_H_
#define FOLIO_SERVICES_CLIENT_RUNNING_COUNT_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace folio::client {

// Thread-safe.
class RunningCount {
 public:
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    ++running_;
  }
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    --running_;
  }
  void AwaitNone() ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return running_ == 0; };
    const absl::MutexLock lock(&mutex_, absl::Condition(&none));
  }

 private:
  absl::Mutex mutex_;
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_RUNNING_COUNT_H_
