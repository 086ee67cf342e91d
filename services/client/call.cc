#include "services/client/call.h"

#include <grpcpp/client_context.h>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"

namespace folio::client {

struct Cancellation::State {
  absl::Mutex mu;
  bool cancelled ABSL_GUARDED_BY(mu) = false;
  absl::flat_hash_set<grpc::ClientContext*> running ABSL_GUARDED_BY(mu);
};

Cancellation::Cancellation() : state_(std::make_shared<State>()) {}

void Cancellation::Cancel() const {
  // The lock is held, because a context must not end while it is being cancelled.
  absl::MutexLock lock(&state_->mu);
  state_->cancelled = true;
  for (grpc::ClientContext* context : state_->running) context->TryCancel();
}

bool Cancellation::cancelled() const {
  absl::MutexLock lock(&state_->mu);
  return state_->cancelled;
}

RunningCall::RunningCall(const Cancellation& cancellation, grpc::ClientContext* context)
    : state_(cancellation.state_), context_(context) {
  absl::MutexLock lock(&state_->mu);
  state_->running.insert(context_);
  if (state_->cancelled) context_->TryCancel();
}

RunningCall::~RunningCall() {
  absl::MutexLock lock(&state_->mu);
  state_->running.erase(context_);
}

}  // namespace folio::client
