// Tells when processes have ended, by pidfd: the proof that one cannot write its pages any more. A
// pidfd becomes readable after the last thread has left the address space.
#ifndef FOLIO_SERVICES_MANAGER_PROCESS_WATCH_H_
#define FOLIO_SERVICES_MANAGER_PROCESS_WATCH_H_

#include <functional>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/common/ids.h"
#include "services/common/unique_fd.h"
#include "services/common/unix_socket.h"

namespace folio::manager {

// A worker is one process, or one per tensor-parallel rank.
struct WorkerProcess {
  WorkerId worker;
  Rank rank;
  friend auto operator<=>(const WorkerProcess&, const WorkerProcess&) = default;
};

// The process at the other end of a connected Unix socket. FAILED_PRECONDITION when it has gone or
// is not visible from our PID namespace.
absl::StatusOr<UniqueFd> OpenPeerPidfd(int socket, const PeerCredentials& peer);

// Thread-safe. One thread of its own, on which `ended` is called, once per watched process and with
// no lock held; `ended` may call Watch and Unwatch.
class ProcessWatch {
 public:
  explicit ProcessWatch(std::function<void(WorkerProcess)> ended);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  void Watch(WorkerProcess process, UniqueFd pidfd);
  // All processes of the worker. `ended` may still be on its way.
  void Unwatch(WorkerId worker);

 private:
  void Run();
  void Wake();

  const std::function<void(WorkerProcess)> ended_;
  const UniqueFd wake_;  // eventfd
  absl::Mutex mu_;
  std::map<WorkerProcess, UniqueFd> watched_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_PROCESS_WATCH_H_
