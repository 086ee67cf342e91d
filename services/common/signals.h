// Turns SIGTERM and SIGINT into something a main thread can wait for.
#ifndef FOLIO_SERVICES_COMMON_SIGNALS_H_
#define FOLIO_SERVICES_COMMON_SIGNALS_H_

#include <optional>

#include "absl/time/time.h"

namespace folio {

// Make one first thing in main, before any thread starts: it blocks SIGTERM and SIGINT for this
// thread and those it starts, and ignores SIGPIPE for the process. A signal that arrives while
// nobody waits is kept.
class TerminationSignals {
 public:
  TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // Takes the next signal: its number, or nothing once `timeout` has passed. Zero asks without
  // waiting; infinite waits for ever. One thread.
  std::optional<int> Wait(absl::Duration timeout = absl::InfiniteDuration());
};

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_SIGNALS_H_
