// FOLIO_CHECK ends the process when an invariant of our own code is broken. It is never used for
// input, because bad input is an absl::Status.
#ifndef FOLIO_SERVICES_BASE_CHECK_H_
#define FOLIO_SERVICES_BASE_CHECK_H_

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace folio {

// Writes past the log's queue. It waits a second at most for a full pipe, because the pipe may have
// no reader and the process has to end.
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  pollfd log = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&log, 1, /*timeout_ms=*/1000) == 1) {
    dprintf(STDERR_FILENO, "%s:%d: check failed: %s\n", file, line, condition);
  }
  std::abort();
}

}  // namespace folio

#define FOLIO_CHECK(condition)                              \
  do {                                                      \
    if (!(condition)) [[unlikely]] {                        \
      ::folio::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                       \
  } while (false)

#ifdef NDEBUG
#define FOLIO_DCHECK(condition) \
  do {                          \
  } while (false && (condition))
#else
#define FOLIO_DCHECK(condition) FOLIO_CHECK(condition)
#endif

#endif  // FOLIO_SERVICES_BASE_CHECK_H_
