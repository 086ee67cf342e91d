// ThreadTime is the processor's time that the calling thread has used. It does not pass while the
// thread waits or others have the processor, so that a limit of work does not depend on the load.
#ifndef FOLIO_SERVICES_BASE_THREAD_TIME_H_
#define FOLIO_SERVICES_BASE_THREAD_TIME_H_

#include <ctime>

#include "absl/time/time.h"

namespace folio {

inline absl::Duration ThreadTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_THREAD_TIME_H_
