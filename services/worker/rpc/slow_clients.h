// SlowClients ends the calls whose clients have stopped reading, so that their sequences do not
// keep pages, and their answers memory, for as long as the connection lives.
#ifndef FOLIO_SERVICES_WORKER_RPC_SLOW_CLIENTS_H_
#define FOLIO_SERVICES_WORKER_RPC_SLOW_CLIENTS_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_wait.h"

namespace folio::worker {

// Whole answers that no client has read may hold so many bytes together. Above that the oldest end
// early, as soon as they have been unread for kUnreadGrace. An answer that is alone may be larger.
inline constexpr size_t kMostUnreadBytes = size_t{64} << 20;
inline constexpr absl::Duration kUnreadGrace = absl::Seconds(1);

// Thread-safe. It must outlive the calls that it watches.
class SlowClients {
  struct Call;

 public:
  // Calls `ended` before it ends a call, from a thread of its own. With a timeout of zero no call
  // is ever ended.
  SlowClients(absl::Duration timeout, std::function<void()> ended);
  ~SlowClients();
  SlowClients(const SlowClients&) = delete;
  SlowClients& operator=(const SlowClients&) = delete;

  // Watch is the watching of one call. The call owns it, and must destroy it before gRPC ends the
  // context.
  class Watch {
   public:
    // Both are borrowed.
    Watch(SlowClients* clients, grpc::CallbackServerContext* context);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // From now on the client has `timeout` to read. A later call starts the time again. `bytes` is
    // the size of a whole answer, or 0 if the call bounds what it holds.
    void Start(size_t bytes = 0);
    // The client has caught up.
    void Stop();

   private:
    SlowClients* const clients_;
    const std::shared_ptr<Call> call_;
  };

 private:
  struct ByDeadline {
    bool operator()(const std::shared_ptr<Call>& a, const std::shared_ptr<Call>& b) const;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // The call that ends next if nothing changes, and when. Precondition: calls are watched.
  std::pair<std::shared_ptr<Call>, SteadyTime> Next() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::shared_ptr<Call>& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool crowded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return unread_bytes_ > kMostUnreadBytes;
  }

  const absl::Duration timeout_;
  const std::function<void()> ended_;
  absl::Mutex mutex_;
  SteadyCondVar changed_;
  std::set<std::shared_ptr<Call>, ByDeadline> watched_ ABSL_GUARDED_BY(mutex_);
  size_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all that are watched
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_SLOW_CLIENTS_H_
