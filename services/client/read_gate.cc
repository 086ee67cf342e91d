#include "services/client/read_gate.h"

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"

namespace folio::client {

struct ReadGate::State {
  std::atomic<bool> closed = false;  // written under the lock, so that most reads take no lock
  absl::Mutex mutex;
  absl::flat_hash_set<Waiter*> waiting ABSL_GUARDED_BY(mutex);
};

ReadGate::ReadGate() : state_(std::make_shared<State>()) {}

void ReadGate::Close() const {
  const absl::MutexLock lock(&state_->mutex);
  state_->closed = true;
}

void ReadGate::Open() const {
  const absl::MutexLock lock(&state_->mutex);
  state_->closed = false;
  for (Waiter* waiter : state_->waiting) waiter->Continue();
  state_->waiting.clear();
}

bool ReadGate::Wait(Waiter* waiter) const {
  if (!state_->closed) return false;
  const absl::MutexLock lock(&state_->mutex);
  if (!state_->closed) return false;
  state_->waiting.insert(waiter);
  return true;
}

void ReadGate::Release(Waiter* waiter) const {
  const absl::MutexLock lock(&state_->mutex);
  if (state_->waiting.erase(waiter) > 0) waiter->Continue();
}

}  // namespace folio::client
