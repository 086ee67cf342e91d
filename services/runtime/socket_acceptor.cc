#include "services/runtime/socket_acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "services/base/check.h"
#include "services/runtime/logging.h"

namespace folio {

SocketAcceptor::SocketAcceptor(UniqueFd listening, std::function<void(UniqueFd)> accepted)
    : listening_(std::move(listening)),
      accepted_(std::move(accepted)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  FOLIO_CHECK(stop_.valid());
  thread_ = std::thread([this] { Run(); });
}

SocketAcceptor::~SocketAcceptor() {
  FOLIO_CHECK(eventfd_write(stop_.get(), 1) == 0);
  thread_.join();
}

void SocketAcceptor::Run() {
  for (;;) {
    pollfd polled[] = {{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0) {
      FOLIO_CHECK(errno == EINTR);
      continue;
    }
    if (polled[0].revents != 0) return;
    UniqueFd connection(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) {
      accepted_(std::move(connection));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      log::Error("cannot accept a connection", {{"errno", errno}});
      pollfd stop = {stop_.get(), POLLIN, 0};
      poll(&stop, 1, 100);  // the caller stays in the backlog; do not spin on it
    }
  }
}

}  // namespace folio
