#include "services/worker/ranks/spawned_ranks.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "services/base/steady_time.h"
#include "services/runtime/logging.h"

namespace folio::worker {
namespace {

constexpr absl::Duration kToEnd = absl::Seconds(5);

std::vector<std::string> OwnArguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!all.empty()) all.pop_back();  // each argument ends with a zero
  return absl::StrSplit(all, '\0');
}

// True if the process has ended and was waited for, now or before.
bool Ended(pid_t pid, SteadyTime deadline) {
  while (pid != 0) {
    const pid_t ended = waitpid(pid, nullptr, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    if (SteadyNow() >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return true;
}

}  // namespace

absl::StatusOr<SpawnedRanks> SpawnedRanks::Start(uint32_t ranks, const std::string& group_socket,
                                                 int threads) {
  SpawnedRanks spawned;
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    std::vector<std::string> arguments = OwnArguments();
    arguments.push_back(absl::StrCat("--rank=", rank));
    arguments.push_back(absl::StrCat("--group=", group_socket));
    arguments.push_back(absl::StrCat("--threads=", threads));
    arguments.push_back(absl::StrCat("--leader_pid=", getpid()));
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    const int error = posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), environ);
    if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot start rank ", rank));
    spawned.pids_.push_back(pid);
    log::Info("rank started", {{"rank", rank}, {"pid", pid}});
  }
  return spawned;
}

SpawnedRanks::SpawnedRanks(SpawnedRanks&& other) noexcept : pids_(std::exchange(other.pids_, {})) {}

absl::Status SpawnedRanks::Check() {
  for (size_t i = 0; i < pids_.size(); ++i) {
    if (pids_[i] == 0 || !Ended(pids_[i], SteadyTime::InfinitePast())) continue;
    const pid_t pid = std::exchange(pids_[i], 0);
    return absl::UnavailableError(absl::StrCat("rank ", i + 1, " (process ", pid,
                                               ") has ended before the group was complete; see "
                                               "its log"));
  }
  return absl::OkStatus();
}

void SpawnedRanks::Kill() {
  for (pid_t& pid : pids_) {
    if (pid == 0) continue;
    kill(pid, SIGKILL);
    Ended(std::exchange(pid, 0), SteadyTime::InfiniteFuture());
  }
}

SpawnedRanks::~SpawnedRanks() {
  const SteadyTime deadline = SteadyNow() + kToEnd;
  for (const pid_t pid : pids_) {
    if (Ended(pid, deadline)) continue;
    log::Warning("killing a rank that does not end", {{"pid", pid}});
    kill(pid, SIGKILL);
    Ended(pid, SteadyTime::InfiniteFuture());
  }
}

}  // namespace folio::worker
