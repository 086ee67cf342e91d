#include "services/client/call.h"

#include <grpcpp/client_context.h>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace folio::client {
namespace {

void End(grpc::ClientContext* context, const std::function<void()>& then) {
  context->TryCancel();
  if (then) then();
}

}  // namespace

struct Cancellation::State {
  absl::Mutex mu;
  bool cancelled ABSL_GUARDED_BY(mu) = false;
  absl::flat_hash_map<grpc::ClientContext*, std::function<void()>> running ABSL_GUARDED_BY(mu);
};

Cancellation::Cancellation() : state_(std::make_shared<State>()) {}

void Cancellation::Cancel() const {
  // The lock is held, because a context must not end while it is being cancelled.
  absl::MutexLock lock(&state_->mu);
  state_->cancelled = true;
  for (const auto& [context, then] : state_->running) End(context, then);
}

bool Cancellation::cancelled() const {
  absl::MutexLock lock(&state_->mu);
  return state_->cancelled;
}

RunningCall::RunningCall(const Cancellation& cancellation, grpc::ClientContext* context,
                         const std::function<void()>& then)
    : state_(cancellation.state_), context_(context) {
  absl::MutexLock lock(&state_->mu);
  if (state_->cancelled) End(context_, then);
  state_->running.emplace(context_, then);
}

RunningCall::~RunningCall() {
  absl::MutexLock lock(&state_->mu);
  state_->running.erase(context_);
}

}  // namespace folio::client
