// TrafficWatch tells which sockets had traffic, although others read and write them.
#ifndef FOLIO_SERVICES_RUNTIME_TRAFFIC_WATCH_H_
#define FOLIO_SERVICES_RUNTIME_TRAFFIC_WATCH_H_

#include "absl/functional/function_ref.h"
#include "services/base/unique_fd.h"

namespace folio {

// The kernel keeps a list of the sockets that had traffic since somebody took the list. That wakes
// no thread and takes no system call for each message. Thread-compatible.
class TrafficWatch {
 public:
  TrafficWatch();

  // Watches a socket until it is closed. Its number may be used again after that. False if the
  // kernel cannot watch it, and then nothing is told of it.
  bool Add(int socket);

  // Calls `moved` with each open socket whose peer has sent or read something since the last time,
  // or that is new.
  void Take(absl::FunctionRef<void(int socket)> moved);

 private:
  const UniqueFd epoll_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_TRAFFIC_WATCH_H_
