// SocketAcceptor accepts the connections of listening sockets on a thread of its own.
#ifndef FOLIO_SERVICES_RUNTIME_SOCKET_ACCEPTOR_H_
#define FOLIO_SERVICES_RUNTIME_SOCKET_ACCEPTOR_H_

#include <functional>
#include <thread>
#include <vector>

#include "services/base/unique_fd.h"
#include "services/runtime/connection_limit.h"

namespace folio {

// When the process or the machine has no descriptor or memory left, callers wait in the backlog of
// the socket. The acceptor tries again after 10 ms, then after longer and longer waits of at most
// half a second. It logs once when this begins and once when it is over.
class SocketAcceptor {
 public:
  // Calls `accepted` with each connection (close-on-exec), one after another. A connection that
  // `limit` does not admit is closed instead. `limit` is also told to look at its connections.
  // `listening` and `limit` are borrowed. `limit` may be null.
  SocketAcceptor(std::vector<int> listening, std::function<void(UniqueFd)> accepted,
                 ConnectionLimit* limit);
  // Waits for the running call of `accepted`.
  ~SocketAcceptor();
  SocketAcceptor(const SocketAcceptor&) = delete;
  SocketAcceptor& operator=(const SocketAcceptor&) = delete;

 private:
  void Run();
  // Returns 0, or the errno of a failure that is not that of one connection alone.
  int Accept(int listening);
  // True if the acceptor shall end, otherwise false after the time.
  bool StopsWithin(int milliseconds);

  const std::vector<int> listening_;
  const std::function<void(UniqueFd)> accepted_;
  ConnectionLimit* const limit_;
  const UniqueFd stop_;  // eventfd
  std::thread thread_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_SOCKET_ACCEPTOR_H_
