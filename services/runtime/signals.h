// TerminationSignals turns SIGTERM and SIGINT into a value that the main thread can wait for.
#ifndef FOLIO_SERVICES_RUNTIME_SIGNALS_H_
#define FOLIO_SERVICES_RUNTIME_SIGNALS_H_

#include <optional>

#include "absl/time/time.h"

namespace folio {

// Make one at the start of main, before any thread starts. It blocks SIGTERM and SIGINT for this
// thread and the threads it starts, and ignores SIGPIPE for the process. A signal that arrives
// while no thread waits is kept.
class TerminationSignals {
 public:
  TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // Returns the next signal's number, or nothing once `timeout` has passed. A timeout of zero does
  // not wait, and an infinite one waits forever. For one thread.
  std::optional<int> Wait(absl::Duration timeout = absl::InfiniteDuration());
};

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_SIGNALS_H_
