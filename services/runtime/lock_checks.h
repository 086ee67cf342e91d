// SkipLockCycleChecks lets Abseil's mutexes be taken without a search for cycles among them.
#ifndef FOLIO_SERVICES_RUNTIME_LOCK_CHECKS_H_
#define FOLIO_SERVICES_RUNTIME_LOCK_CHECKS_H_

namespace folio {

// Debian builds Abseil with its checks for deadlocks. Each time a thread takes a mutex while it
// holds another one, they take a lock of the whole process. Under load that was 6 % of the
// gateway's time. Programs of tests keep the checks. Call it in main, before any thread starts.
void SkipLockCycleChecks();

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_LOCK_CHECKS_H_
