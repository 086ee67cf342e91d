#include "services/runtime/signals.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "services/base/check.h"
#include "services/base/steady_time.h"

namespace folio {
namespace {

sigset_t Terminating() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

TerminationSignals::TerminationSignals() {
  const sigset_t set = Terminating();
  FOLIO_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
}

std::optional<int> TerminationSignals::Wait(absl::Duration timeout) {
  const sigset_t set = Terminating();
  const SteadyTime deadline = SteadyNow() + timeout;
  for (;;) {
    // Long waits go in pieces, because a timespec cannot hold every absl::Duration.
    const absl::Duration left =
        std::clamp(deadline - SteadyNow(), absl::ZeroDuration(), absl::Hours(1));
    const timespec wait = absl::ToTimespec(left);
    const int number = sigtimedwait(&set, nullptr, &wait);
    if (number > 0) return number;
    FOLIO_CHECK(errno == EAGAIN || errno == EINTR);
    if (SteadyNow() >= deadline) return std::nullopt;
  }
}

}  // namespace folio
