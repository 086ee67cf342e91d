#include "services/manager/process_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/base/check.h"

namespace folio::manager {
namespace {

// Linux 6.5; the headers of Debian 12 are older.
constexpr int kPeerPidfd = 77;

}  // namespace

absl::StatusOr<UniqueFd> OpenPeerPidfd(int socket, const PeerCredentials& peer) {
  int direct = -1;
  socklen_t length = sizeof(direct);
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &direct, &length) == 0) return UniqueFd(direct);
  if (peer.pid <= 0) {
    return absl::FailedPreconditionError(
        "the worker's process is in another PID namespace, its kernel is older than Linux 6.5, and "
        "the worker does not keep its connection; let worker and manager have one version");
  }
  // glibc 2.36 declares pidfd_open without C linkage.
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!pidfd.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot watch process ", peer.pid, ": errno ", errno));
  }
  // The number could have been reused, but not while its first owner still holds the socket.
  pollfd peer_end = {socket, POLLRDHUP, 0};
  if (poll(&peer_end, 1, 0) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("process ", peer.pid, " has gone"));
  }
  return pidfd;
}

uint64_t StartOfProcess(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // The name, in brackets, may have blanks and brackets. The start is the 20th field behind it.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<std::string> fields = absl::StrSplit(line.substr(name_end + 1), ' ');
  uint64_t started = 0;
  return fields.size() > 20 && absl::SimpleAtoi(fields[20], &started) ? started : 0;
}

absl::StatusOr<UniqueFd> OpenPidfd(pid_t pid, uint64_t started) {
  if (pid == 0) return absl::FailedPreconditionError("the process is unknown");
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const bool ended = !pidfd.valid() && errno == ESRCH;
  // The number cannot come to mean another process any more once the descriptor is open.
  const uint64_t found = pidfd.valid() ? StartOfProcess(pid) : 0;
  if (ended || (found != 0 && started != 0 && found != started)) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
  }
  if (found != 0 && found == started) return pidfd;
  return absl::FailedPreconditionError(absl::StrCat("process ", pid, " is hidden"));
}

std::string PidNamespace() {
  struct stat info = {};
  if (stat("/proc/self/ns/pid", &info) != 0) return "";
  // The kernel uses the number of a namespace that has ended again.
  return absl::StrCat(info.st_ino, " ", StartOfProcess(1));
}

ProcessWatch::ProcessWatch(std::function<void(WorkerProcess)> ended)
    : ended_(std::move(ended)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  FOLIO_CHECK(wake_.valid());
  thread_ = std::thread([this] { Run(); });
}

ProcessWatch::~ProcessWatch() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  Wake();
  thread_.join();
}

void ProcessWatch::Wake() { FOLIO_CHECK(eventfd_write(wake_.get(), 1) == 0); }

void ProcessWatch::Watch(WorkerProcess process, ProcessEnd end) {
  {
    absl::MutexLock lock(&mu_);
    watched_[process] = std::move(end);
  }
  Wake();
}

// The thread may be polling a descriptor that closes here; it looks the process up again before it
// believes a result.
void ProcessWatch::Unwatch(WorkerProcess process) {
  absl::MutexLock lock(&mu_);
  watched_.erase(process);
}

void ProcessWatch::Unwatch(WorkerId worker) {
  absl::MutexLock lock(&mu_);
  std::erase_if(watched_, [worker](const auto& one) { return one.first.worker == worker; });
}

absl::Status ProcessWatch::Kill(WorkerProcess process) {
  absl::MutexLock lock(&mu_);
  const auto it = watched_.find(process);
  if (it == watched_.end()) return absl::NotFoundError("the process has ended");
  if (!it->second.is_pidfd) {
    return absl::FailedPreconditionError("the kernel does not show the process to the manager");
  }
  if (syscall(SYS_pidfd_send_signal, it->second.fd.get(), SIGKILL, nullptr, 0) == 0) {
    return absl::OkStatus();
  }
  switch (errno) {
    case ESRCH:
      return absl::NotFoundError("the process has ended");
    case EPERM:
      return absl::PermissionDeniedError("the process runs as another user");
    case EINVAL:
      return absl::FailedPreconditionError(
          "the process is in a PID namespace that is not below the manager's");
    default:
      return absl::ErrnoToStatus(errno, "pidfd_send_signal");
  }
}

bool ProcessWatch::SeesRunning(WorkerProcess process) {
  absl::MutexLock lock(&mu_);
  const auto it = watched_.find(process);
  if (it == watched_.end() || !it->second.is_pidfd) return false;
  pollfd ended = {.fd = it->second.fd.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) == 0;
}

void ProcessWatch::Run() {
  std::vector<pollfd> polled;
  std::vector<WorkerProcess> processes;
  for (;;) {
    polled.assign(1, {wake_.get(), POLLIN, 0});
    processes.clear();
    {
      absl::MutexLock lock(&mu_);
      if (stop_) return;
      for (const auto& [process, end] : watched_) {
        // A connection reports its end in any case. Its messages are not of interest.
        const short events = end.is_pidfd ? POLLIN : 0;
        polled.push_back({end.fd.get(), events, 0});
        processes.push_back(process);
      }
    }
    const int ready = poll(polled.data(), polled.size(), -1);
    FOLIO_CHECK(ready > 0 || errno == EINTR);
    if (ready <= 0) continue;
    eventfd_t ignored = 0;
    if (polled[0].revents != 0) eventfd_read(wake_.get(), &ignored);
    for (size_t i = 0; i < processes.size(); ++i) {
      if ((polled[i + 1].revents & (POLLIN | POLLHUP)) == 0) continue;
      {
        absl::MutexLock lock(&mu_);
        if (watched_.erase(processes[i]) == 0) continue;
      }
      ended_(processes[i]);
    }
  }
}

}  // namespace folio::manager
