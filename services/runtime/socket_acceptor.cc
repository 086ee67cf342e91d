#include "services/runtime/socket_acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/time/time.h"
#include "services/base/check.h"
#include "services/runtime/logging.h"

namespace folio {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kShortestWaitMs = 10, kLongestWaitMs = 500;
// A shortage is over when no try has failed for this long. A process at the edge of its limit fails
// and succeeds by turns, and must not log each turn.
constexpr int kQuietMs = 2000;

// A time in which connections cannot be accepted.
class Shortage {
 public:
  bool lasts() const { return failures_ > 0; }

  // Returns how long to wait before the next try, in milliseconds.
  int Failed(int error) {
    last_ = SteadyClock::now();
    if (failures_++ == 0) {
      first_ = last_;
      log::Error("cannot accept connections, so callers wait", {{"reason", std::strerror(error)}});
    }
    return std::exchange(wait_ms_, std::min(2 * wait_ms_, kLongestWaitMs));
  }

  void Accepted() { wait_ms_ = kShortestWaitMs; }

  void EndIfQuiet() {
    if (!lasts() || SteadyClock::now() - last_ < std::chrono::milliseconds(kQuietMs)) return;
    log::Info("connections are accepted again",
              {{"shortage", absl::FromChrono(last_ - first_)}, {"failures", failures_}});
    *this = Shortage();
  }

 private:
  uint64_t failures_ = 0;
  int wait_ms_ = kShortestWaitMs;
  SteadyClock::time_point first_, last_;
};

}  // namespace

SocketAcceptor::SocketAcceptor(std::vector<int> listening, std::function<void(UniqueFd)> accepted,
                               ConnectionLimit* limit)
    : listening_(std::move(listening)),
      accepted_(std::move(accepted)),
      limit_(limit),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  FOLIO_CHECK(stop_.valid());
  thread_ = std::thread([this] { Run(); });
}

SocketAcceptor::~SocketAcceptor() {
  FOLIO_CHECK(eventfd_write(stop_.get(), 1) == 0);
  thread_.join();
}

void SocketAcceptor::Run() {
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (const int socket : listening_) polled.push_back({socket, POLLIN, 0});
  Shortage shortage;
  const int look_ms =
      limit_ == nullptr ? -1 : static_cast<int>(absl::ToInt64Milliseconds(limit_->period()));
  for (;;) {
    if (limit_ != nullptr) limit_->Look();
    if (poll(polled.data(), polled.size(), shortage.lasts() ? kQuietMs : look_ms) < 0) {
      FOLIO_CHECK(errno == EINTR || errno == ENOMEM);
      continue;
    }
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      if (const int error = Accept(polled[i].fd); error == 0) {
        shortage.Accepted();
      } else if (StopsWithin(shortage.Failed(error))) {
        return;
      }
    }
    shortage.EndIfQuiet();
  }
}

int SocketAcceptor::Accept(int listening) {
  UniqueFd connection(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) {
    const int error = errno;
    if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return 0;
    if (limit_ != nullptr) limit_->CountAcceptFailure();
    return error;
  }
  if (limit_ == nullptr || limit_->Admit(connection.get())) accepted_(std::move(connection));
  return 0;
}

bool SocketAcceptor::StopsWithin(int milliseconds) {
  pollfd stop = {stop_.get(), POLLIN, 0};
  return poll(&stop, 1, milliseconds) > 0;
}

}  // namespace folio
