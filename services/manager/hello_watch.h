// HelloWatch ends sessions that do not say whose they are. Every Session stream holds a thread of
// the gRPC server from its beginning, and so streams without a hello could take as many threads and
// as much memory as they like.
//
// A worker sends its hello together with the stream. So a stream has some seconds for it. If more
// streams wait than a node has workers that start, the one that waits longest ends. The newest one
// is not refused instead, because then streams that stay mute could keep workers out.
#ifndef FOLIO_SERVICES_MANAGER_HELLO_WATCH_H_
#define FOLIO_SERVICES_MANAGER_HELLO_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/base/clock.h"
#include "services/base/steady_time.h"

namespace folio::manager {

// Thread-safe.
class HelloWatch {
 public:
  // Ends a stream with a status. It must neither wait nor call the watch.
  using End = std::function<void(const absl::Status& why)>;

  struct Limits {
    absl::Duration timeout = absl::Seconds(2);
    size_t streams = 64;  // that wait at the same time
  };

  // Borrows the clock.
  HelloWatch(const Clock* clock, const Limits& limits) : clock_(clock), limits_(limits) {}

  // Waiting is a stream's time between its beginning and its hello.
  class Waiting {
   public:
    // Borrows the watch. Any thread may call `end`, at most once, until the destructor returns:
    // with DEADLINE_EXCEEDED when the time is over, and with UNAVAILABLE when too many wait.
    Waiting(HelloWatch* watch, End end);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    HelloWatch* const watch_;
    const uint64_t number_;
  };

  // Ends the streams whose time is over. Somebody must call it now and then.
  void EndLate();

 private:
  struct Stream {
    SteadyTime since;
    End end;
  };
  uint64_t Add(End end);
  void Remove(uint64_t number);

  const Clock* const clock_;
  const Limits limits_;
  absl::Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  // By their numbers, so that the first one waits longest. Without those that were ended.
  std::map<uint64_t, Stream> streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_HELLO_WATCH_H_
