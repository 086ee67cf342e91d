// ConnectionLimit bounds how many connections a daemon has open, counts them, and makes room for
// new ones.
#ifndef FOLIO_SERVICES_RUNTIME_CONNECTION_LIMIT_H_
#define FOLIO_SERVICES_RUNTIME_CONNECTION_LIMIT_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/runtime/traffic_watch.h"

namespace folio {

// Connections are given away to gRPC, which closes them and tells no one. So a connection is
// remembered by its descriptor and the inode number of its socket. It is closed when fstat finds no
// descriptor or another file there. That is one system call for each connection, and it is needed
// only when as many as are allowed have been admitted since the last look. Thread-safe.
//
// A client that keeps connections and does not use them must not keep others out. So when all are
// taken, a new connection takes the place of the one that has been silent longest. gRPC does not
// tell which connections have calls, but while one has, gRPC asks the client every
// kServerKeepaliveTimeMs whether it is there. So one that has been silent much longer has no call.
class ConnectionLimit {
 public:
  // A connection that has been silent for so long may be closed to make room for another.
  static constexpr absl::Duration kSilence = absl::Minutes(2);

  // Tests take a shorter silence.
  explicit ConnectionLimit(int most, absl::Duration silence = kSilence);

  // True if fewer than `most` others are open, or a silent one was closed for it. Then `connection`
  // counts until its descriptor is closed. A refusal is logged, at most once a minute, and so is a
  // connection that was closed.
  bool Admit(int connection);
  // Counts a connection that could not be accepted because the process or the machine lacked
  // descriptors or memory.
  void CountAcceptFailure();

  // Notes which connections have had traffic. Somebody must call it once in a `period`, and nothing
  // counts as silent before that. More calls do no harm.
  void Look();
  absl::Duration period() const;

  struct Counts {
    size_t open = 0;               // now
    uint64_t refused = 0;          // since the start
    uint64_t accept_failures = 0;  // since the start
  };
  Counts counts();
  size_t most() const { return most_; }

 private:
  using SteadyTimePoint = std::chrono::steady_clock::time_point;
  struct Connection {
    ino_t inode = 0;
    uint64_t round = 0;  // of its last traffic
  };

  void ForgetClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteTraffic() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CloseSilent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  const absl::Duration silence_;
  absl::Mutex mutex_;
  absl::flat_hash_map<int, Connection> admitted_ ABSL_GUARDED_BY(mutex_);  // by descriptor
  TrafficWatch traffic_ ABSL_GUARDED_BY(mutex_);
  // A round is a period in which somebody looked. A process that was stopped has had none
  // meanwhile, so that its connections have not been silent.
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  SteadyTimePoint round_began_ ABSL_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
  bool none_silent_ ABSL_GUARDED_BY(mutex_) = false;  // since looked_
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t closed_ ABSL_GUARDED_BY(mutex_) = 0;  // silent ones
  uint64_t accept_failures_ ABSL_GUARDED_BY(mutex_) = 0;
  SteadyTimePoint looked_ ABSL_GUARDED_BY(mutex_);
  SteadyTimePoint refusal_logged_ ABSL_GUARDED_BY(mutex_);
  SteadyTimePoint closing_logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_CONNECTION_LIMIT_H_
