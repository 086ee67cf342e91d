// EventLog keeps the newest events of the manager, and lets operators watch them.
//
// It keeps so many events of each kind that a flood of one kind drops none of another, and that its
// memory is bounded. No other thread waits for a watcher. One that is too slow, or that asks for
// what is gone, is told how many events it has lost.
#ifndef FOLIO_SERVICES_MANAGER_EVENT_LOG_H_
#define FOLIO_SERVICES_MANAGER_EVENT_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/manager/event.h"

namespace folio::manager {

// EventBatch is what a watcher has not seen yet, or the beginning of it.
struct EventBatch {
  uint64_t lost = 0;  // events of the watcher's kinds that it will never see, before `events`
  std::vector<std::shared_ptr<const Event>> events;  // by number
  bool last = false;                                 // the log is closed, and there are no more
};

class EventWatch;

// Thread-safe. Its lock is the innermost one: any other lock may be held while Append is called,
// which takes about a microsecond. No event is recorded under the coordinator's lock.
class EventLog {
 public:
  struct Limits {
    size_t events_of_a_kind = 1024;
    // Each watch of an operator holds a thread of the gRPC server.
    size_t watches = 16;
  };

  EventLog() : EventLog(Limits()) {}
  // Every watch must have ended before the log does.
  explicit EventLog(Limits limits) : limits_(limits) {}
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Gives the event its number and its time. Never waits.
  void Append(Event event) ABSL_LOCKS_EXCLUDED(mu_);
  // From now on watches end once they have seen every event. Waits up to `patience` until all have
  // ended.
  void Close(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mu_);
  // The number of the newest event, 0 if there is none.
  uint64_t newest() const ABSL_LOCKS_EXCLUDED(mu_);

  // Begins behind the event of number `after`. RESOURCE_EXHAUSTED if as many watches exist as the
  // limits allow, INVALID_ARGUMENT if `after` is beyond the newest event.
  absl::StatusOr<std::unique_ptr<EventWatch>> Watch(const EventKindSet& kinds, uint64_t after)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class EventWatch;

  // The newest events of one kind, and how many have left it. An event's place counts those of its
  // kind that came before it, dropped ones included.
  struct Ring {
    std::deque<std::shared_ptr<const Event>> events;
    uint64_t dropped = 0;
    uint64_t newest_dropped = 0;  // its number

    uint64_t end() const { return dropped + events.size(); }
    uint64_t PlaceAfter(uint64_t number) const;
  };

  const Limits limits_;
  mutable absl::Mutex mu_;
  SteadyCondVar changed_;  // an event came, the log was closed, or a watch ended
  std::array<Ring, kEventKinds> rings_ ABSL_GUARDED_BY(mu_);
  uint64_t newest_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  size_t watches_ ABSL_GUARDED_BY(mu_) = 0;
  size_t waiting_ ABSL_GUARDED_BY(mu_) = 0;  // watches that wait for an event
};

// EventWatch is one watcher's place in the log. Thread-compatible. It must not outlive the log.
class EventWatch {
 public:
  ~EventWatch();
  EventWatch(const EventWatch&) = delete;
  EventWatch& operator=(const EventWatch&) = delete;

  // Waits until the deadline for something that was not seen yet. Gives at most kMostAtOnce events
  // at a time, and each event once.
  EventBatch Next(SteadyTime deadline);

  static constexpr size_t kMostAtOnce = 64;

 private:
  friend class EventLog;
  EventWatch(EventLog* log, const EventKindSet& kinds) : log_(log), kinds_(kinds) {}
  // The next ring to read from, or nothing. `log_` is locked.
  EventLog::Ring* Earliest(uint64_t** place);

  EventLog* const log_;
  const EventKindSet kinds_;
  std::array<uint64_t, kEventKinds> places_ = {};  // of the next event, by kind
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_EVENT_LOG_H_
