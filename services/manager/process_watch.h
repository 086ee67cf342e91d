// ProcessWatch tells when processes have ended, which proves that they cannot write their pages any
// more. It polls pidfds. A pidfd becomes readable only after the last thread has left the address
// space, and unlike a process id it never comes to mean another process.
//
// A process in another PID namespace has no pidfd for us before Linux 6.5. Its end is then the end
// of a connection that it keeps. The kernel closes a process's descriptors after its last thread
// has left the address space, so the end of the connection proves the same about host memory,
// unless the process breaks its promise and closes it early. About GPU memory it proves a little
// less, because the driver's descriptors may be closed some milliseconds later.
#ifndef FOLIO_SERVICES_MANAGER_PROCESS_WATCH_H_
#define FOLIO_SERVICES_MANAGER_PROCESS_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/base/ids.h"
#include "services/base/unique_fd.h"
#include "services/runtime/unix_socket.h"

namespace folio::manager {

// A worker is one process, or one per tensor-parallel rank.
struct WorkerProcess {
  WorkerId worker;
  Rank rank;
  friend auto operator<=>(const WorkerProcess&, const WorkerProcess&) = default;
};

// A descriptor that becomes ready when a process ends: its pidfd, or our end of its connection.
struct ProcessEnd {
  UniqueFd fd;
  bool is_pidfd = true;
};

// The process at the other end of a connected Unix socket. FAILED_PRECONDITION if it has ended, or
// if it is in another PID namespace and the kernel cannot tell it (before Linux 6.5).
absl::StatusOr<UniqueFd> OpenPeerPidfd(int socket, const PeerCredentials& peer);

// ExportPeer is the process that asks for descriptors, as the export socket sees it.
struct ExportPeer {
  pid_t pid = 0;  // 0 if it is in another PID namespace
  absl::StatusOr<UniqueFd> pidfd;
  UniqueFd connection;  // a duplicate of our end
  uid_t uid = 0;        // the user of the process, as our user namespace numbers it
  // The pool's descriptors that a worker of the manager before this one brings back.
  std::vector<UniqueFd> brought = {};
};

// When the process began, in clock ticks since the machine did. 0 if it is not there, or hidden.
uint64_t StartOfProcess(pid_t pid);
// The process with this number that began then. NOT_FOUND: it has ended. FAILED_PRECONDITION: it
// cannot be told, because the process is hidden or `started` is 0.
absl::StatusOr<UniqueFd> OpenPidfd(pid_t pid, uint64_t started);
// Names the PID namespace of this process. A container that is started again has another one, whose
// process ids mean other processes.
std::string PidNamespace();

// Thread-safe. It calls `ended` on a thread of its own, once per watched process and without
// holding a lock, so `ended` may call Watch and Unwatch.
class ProcessWatch {
 public:
  explicit ProcessWatch(std::function<void(WorkerProcess)> ended);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  void Watch(WorkerProcess process, ProcessEnd end);
  // Forgets the process, or all processes of the worker. A call of `ended` may already be under
  // way.
  void Unwatch(WorkerProcess process);
  void Unwatch(WorkerId worker);
  // Ends the process with SIGKILL, which `ended` then reports. NOT_FOUND if it is not watched or
  // has ended. FAILED_PRECONDITION if it is watched by its connection, or if its PID namespace is
  // neither ours nor below ours. PERMISSION_DENIED if it runs as another user.
  absl::Status Kill(WorkerProcess process);
  // The process is watched by its pidfd, and has not ended.
  bool SeesRunning(WorkerProcess process);

 private:
  void Run();
  void Wake();

  const std::function<void(WorkerProcess)> ended_;
  const UniqueFd wake_;  // eventfd
  absl::Mutex mu_;
  std::map<WorkerProcess, ProcessEnd> watched_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_PROCESS_WATCH_H_
