#include "tests/manager/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/time/clock.h"
#include "services/base/check.h"

namespace folio::testing {

ChildProcess::ChildProcess(const std::vector<std::string>& argv) {
  std::array<int, 2> ends = {-1, -1};
  FOLIO_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0);
  out_.Reset(ends[0]);
  const UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  FOLIO_CHECK(posix_spawn_file_actions_init(&actions) == 0);
  FOLIO_CHECK(posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO) == 0);
  FOLIO_CHECK(posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO) == 0);
  std::vector<char*> raw;
  raw.reserve(argv.size() + 1);
  for (const std::string& arg : argv) raw.push_back(const_cast<char*>(arg.c_str()));
  raw.push_back(nullptr);
  FOLIO_CHECK(posix_spawn(&pid_, raw[0], &actions, nullptr, raw.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
}

ChildProcess::~ChildProcess() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::Signal(int number) const { FOLIO_CHECK(kill(pid_, number) == 0); }

bool ChildProcess::ReadSome(absl::Time deadline) {
  const int64_t left = std::max<int64_t>(absl::ToInt64Milliseconds(deadline - absl::Now()), 0);
  pollfd waiting = {out_.get(), POLLIN, 0};
  if (poll(&waiting, 1, static_cast<int>(left)) <= 0) return false;
  std::array<char, 4096> buffer;
  const ssize_t got = read(out_.get(), buffer.data(), buffer.size());
  if (got <= 0) return false;
  output_.append(buffer.data(), got);
  return true;
}

std::string ChildProcess::ReadUntil(const std::string& text) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  for (;;) {
    const size_t at = output_.find(text);
    const size_t end = at == std::string::npos ? at : output_.find('\n', at);
    if (end != std::string::npos) {
      const size_t before = output_.rfind('\n', at);
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      return output_.substr(begin, end - begin);
    }
    if (!ReadSome(deadline)) return "";
  }
}

int ChildProcess::Wait(absl::Duration timeout) {
  FOLIO_CHECK(!ended_);
  const absl::Time deadline = absl::Now() + timeout;
  // Output first, so that a full pipe cannot hold the child up.
  while (ReadSome(deadline)) {
  }
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (absl::Now() > deadline) return -1;
    absl::SleepFor(absl::Milliseconds(2));
  }
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace folio::testing
