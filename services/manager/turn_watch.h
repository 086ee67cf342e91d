// TurnWatch is told of each turn of a loop. It reports when no turn comes for too long, and when
// one comes again.
//
// Time counts only while the watch runs too. If the whole process stood still (SIGSTOP, a debugger,
// a paused machine), the loop is not late when it continues.
#ifndef FOLIO_SERVICES_MANAGER_TURN_WATCH_H_
#define FOLIO_SERVICES_MANAGER_TURN_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "services/base/steady_wait.h"

namespace folio::manager {

class TurnWatch {
 public:
  // The loop stands still when it makes no turn for `limit`. `report` is told false then, and true
  // when there is a turn again. It is called on the watch's thread.
  TurnWatch(absl::Duration limit, std::function<void(bool)> report);
  ~TurnWatch() { Stop(); }
  TurnWatch(const TurnWatch&) = delete;
  TurnWatch& operator=(const TurnWatch&) = delete;

  // Start and Stop belong to one thread. Nothing is reported after Stop, which may come twice.
  void Start();
  void Stop();

  // The loop makes a turn. Thread-safe, and waits for nothing.
  void OnTurn() { turns_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void Run();

  const absl::Duration limit_;
  const std::function<void(bool)> report_;
  std::atomic<uint64_t> turns_ = 0;
  SteadyNotification stop_;
  std::thread thread_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_TURN_WATCH_H_
