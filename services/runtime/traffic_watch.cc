#include "services/runtime/traffic_watch.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include "services/base/check.h"

namespace folio {

TrafficWatch::TrafficWatch() : epoll_(epoll_create1(EPOLL_CLOEXEC)) { FOLIO_CHECK(epoll_.valid()); }

bool TrafficWatch::Add(int socket) {
  epoll_event event = {};
  // Edges, so that each traffic is told once. When the list is taken, what came may have been read,
  // and the kernel tells only what is true then. Mostly that is EPOLLOUT.
  event.events = EPOLLIN | EPOLLOUT | EPOLLET;
  event.data.fd = socket;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) == 0;
}

void TrafficWatch::Take(absl::FunctionRef<void(int socket)> moved) {
  std::array<epoll_event, 256> events;
  // An edge is told once, so the list ends, unless new traffic comes as fast as it is taken.
  for (;;) {
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), /*timeout=*/0);
    for (int i = 0; i < count; ++i) moved(events[static_cast<size_t>(i)].data.fd);
    if (count < static_cast<int>(events.size())) return;
  }
}

}  // namespace folio
