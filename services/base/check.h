// FOLIO_CHECK ends the process when an invariant of our own code is broken. It is never used for
// input, because bad input is an absl::Status.
#ifndef FOLIO_SERVICES_BASE_CHECK_H_
#define FOLIO_SERVICES_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define FOLIO_CHECK(condition)                                                           \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#ifdef NDEBUG
#define FOLIO_DCHECK(condition) \
  do {                          \
  } while (false && (condition))
#else
#define FOLIO_DCHECK(condition) FOLIO_CHECK(condition)
#endif

#endif  // FOLIO_SERVICES_BASE_CHECK_H_
