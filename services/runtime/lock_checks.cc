#include "services/runtime/lock_checks.h"

#include "absl/synchronization/mutex.h"

namespace folio {

void SkipLockCycleChecks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace folio
