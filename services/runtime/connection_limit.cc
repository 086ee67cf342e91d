#include "services/runtime/connection_limit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "services/base/unique_fd.h"
#include "services/runtime/logging.h"

namespace folio {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A flood of callers must not make the process look at all of its connections for each of them.
constexpr std::chrono::milliseconds kLookInterval(10);
constexpr std::chrono::minutes kLogInterval(1);
// Rounds without traffic that make the silence.
constexpr uint64_t kSilentRounds = 12;
// The round of a connection that cannot be watched, which is never reached.
constexpr uint64_t kAlways = UINT64_MAX / 2;

// Zero if the descriptor is not a socket.
ino_t SocketInode(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

// True if it was the first of these, or long after the last one that was logged.
bool IsTimeToLog(uint64_t count, SteadyClock::time_point now, SteadyClock::time_point* logged) {
  if (count > 1 && now - *logged < kLogInterval) return false;
  *logged = now;
  return true;
}

}  // namespace

ConnectionLimit::ConnectionLimit(int most, absl::Duration silence)
    : most_(static_cast<size_t>(most)), silence_(silence) {}

absl::Duration ConnectionLimit::period() const { return silence_ / kSilentRounds; }

bool ConnectionLimit::Admit(int connection) {
  uint64_t refused = 0, closed = 0;
  {
    absl::MutexLock lock(&mutex_);
    const SteadyClock::time_point now = SteadyClock::now();
    if (admitted_.size() >= most_ && now - looked_ >= kLookInterval) {
      ForgetClosed();
      NoteTraffic();
      none_silent_ = false;
      looked_ = now;
    }
    if (admitted_.size() >= most_ && CloseSilent() &&
        IsTimeToLog(++closed_, now, &closing_logged_)) {
      closed = closed_;
    }
    if (admitted_.size() < most_) {
      const uint64_t round = traffic_.Add(connection) ? round_ : kAlways;
      admitted_[connection] = {SocketInode(connection), round};
    } else if (IsTimeToLog(++refused_, now, &refusal_logged_)) {
      refused = refused_;
    } else {
      return false;
    }
  }
  if (closed != 0) {
    log::Warning("a silent connection was closed to make room, because --max_connections are open",
                 {{"max_connections", most_}, {"closed_since_start", closed}});
  }
  if (refused == 0) return true;
  log::Warning("a connection was refused because --max_connections are open",
               {{"max_connections", most_}, {"refused_since_start", refused}});
  return false;
}

void ConnectionLimit::CountAcceptFailure() {
  absl::MutexLock lock(&mutex_);
  ++accept_failures_;
}

void ConnectionLimit::Look() {
  absl::MutexLock lock(&mutex_);
  const SteadyClock::time_point now = SteadyClock::now();
  if (now - round_began_ < absl::ToChronoNanoseconds(period())) return;
  round_began_ = now;
  ++round_;
  NoteTraffic();
}

ConnectionLimit::Counts ConnectionLimit::counts() {
  absl::MutexLock lock(&mutex_);
  ForgetClosed();
  return {admitted_.size(), refused_, accept_failures_};
}

void ConnectionLimit::ForgetClosed() {
  absl::erase_if(admitted_, [](const auto& entry) {
    const auto& [descriptor, connection] = entry;
    return SocketInode(descriptor) != connection.inode;
  });
}

void ConnectionLimit::NoteTraffic() {
  traffic_.Take([this](int descriptor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = admitted_.find(descriptor);
    if (found != admitted_.end()) found->second.round = round_;
  });
}

bool ConnectionLimit::CloseSilent() {
  if (none_silent_) return false;
  const auto longest = std::min_element(
      admitted_.begin(), admitted_.end(),
      [](const auto& a, const auto& b) { return a.second.round < b.second.round; });
  if (longest == admitted_.end() || round_ < longest->second.round + kSilentRounds) {
    none_silent_ = true;
    return false;
  }
  // With a descriptor of our own. gRPC may close its one at any time, and its number may then
  // belong to another file.
  const UniqueFd own(fcntl(longest->first, F_DUPFD_CLOEXEC, 0));
  if (!own.valid() && errno != EBADF) return false;
  // gRPC finds the end of the connection and closes it.
  if (own.valid() && SocketInode(own.get()) == longest->second.inode) {
    shutdown(own.get(), SHUT_RDWR);
  }
  admitted_.erase(longest);
  return true;
}

}  // namespace folio
