// SocketAcceptor accepts the connections of a listening socket on a thread of its own.
#ifndef FOLIO_SERVICES_RUNTIME_SOCKET_ACCEPTOR_H_
#define FOLIO_SERVICES_RUNTIME_SOCKET_ACCEPTOR_H_

#include <functional>
#include <thread>

#include "services/base/unique_fd.h"

namespace folio {

// When the process has no descriptor left, callers wait in the socket's backlog and the acceptor
// tries again ten times a second.
class SocketAcceptor {
 public:
  // Calls `accepted` with each connection (close-on-exec), one after another.
  SocketAcceptor(UniqueFd listening, std::function<void(UniqueFd)> accepted);
  // Waits for the running call of `accepted`.
  ~SocketAcceptor();
  SocketAcceptor(const SocketAcceptor&) = delete;
  SocketAcceptor& operator=(const SocketAcceptor&) = delete;

 private:
  void Run();

  const UniqueFd listening_;
  const std::function<void(UniqueFd)> accepted_;
  const UniqueFd stop_;  // eventfd
  std::thread thread_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_SOCKET_ACCEPTOR_H_
