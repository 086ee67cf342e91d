// IdSource gives ids to workers and sequences, so that the pools of one manager never give the same
// id twice.
#ifndef FOLIO_SERVICES_CACHE_ID_SOURCE_H_
#define FOLIO_SERVICES_CACHE_ID_SOURCE_H_

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/base/ids.h"

namespace folio::cache {

// The ids that were given last.
struct LastIds {
  WorkerId worker;
  SequenceId sequence;
};

// Thread-safe. Its lock is an innermost one.
class IdSource {
 public:
  // Ids count on from `last`.
  explicit IdSource(LastIds last = {}) : last_(last) {}

  WorkerId NextWorker() {
    const absl::MutexLock lock(&mu_);
    return ++last_.worker;
  }
  SequenceId NextSequence() {
    const absl::MutexLock lock(&mu_);
    return ++last_.sequence;
  }
  // No id up to these is given any more.
  void Skip(LastIds used) {
    const absl::MutexLock lock(&mu_);
    last_.worker = std::max(last_.worker, used.worker);
    last_.sequence = std::max(last_.sequence, used.sequence);
  }
  // The first sequence gets an id behind this one, unless some had ids before.
  void SkipIfUnused(SequenceId before_first) {
    const absl::MutexLock lock(&mu_);
    if (last_.sequence == SequenceId()) last_.sequence = before_first;
  }

 private:
  absl::Mutex mu_;
  LastIds last_ ABSL_GUARDED_BY(mu_);
};

// NextIds is one coordinator's view of a source. A sequence that is not let in uses no id up.
// Thread-compatible.
class NextIds {
 public:
  // Borrows the source. Without one it has a source of its own.
  explicit NextIds(IdSource* shared) : source_(shared == nullptr ? own_ : *shared) {}
  NextIds(const NextIds&) = delete;
  NextIds& operator=(const NextIds&) = delete;

  WorkerId TakeWorker() { return source_.NextWorker(); }
  // The id of the next sequence, the same until it is taken.
  SequenceId Sequence() {
    if (next_ == SequenceId()) next_ = source_.NextSequence();
    return next_;
  }
  void TakeSequence() { next_ = SequenceId(); }

 private:
  IdSource own_;
  IdSource& source_;
  SequenceId next_;  // 0 before the first ask
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_ID_SOURCE_H_
