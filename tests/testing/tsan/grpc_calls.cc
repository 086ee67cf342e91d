// Tells ThreadSanitizer what gRPC orders between the threads of its users. Its locks are
// absl::Mutex, so absl_locks.cc announces them. Inside it passes work on by atomics as well, which
// ThreadSanitizer does not see in a library that is not built for it. The documented order is
// announced here, and no more:
//
//   what was done before an operation began  ->  what follows its completion
//   what was done before a server started    ->  its calls
//   what was done on a call's other threads  ->  OnCancel and OnDone of its reactor
//   the end of a server's last call          ->  the end of its shutdown
#include <grpc/grpc.h>
#include <grpcpp/server.h>
#include <grpcpp/support/server_callback.h>

#include <utility>

#include "absl/status/status.h"
#include "tests/testing/tsan/announce.h"

struct grpc_cq_completion;

using folio::testing::Real;

namespace {

char started_servers;  // only its address counts

void Acquire(const grpc_event& event) {
  if (event.type != GRPC_OP_COMPLETE) return;
  __tsan_acquire(&started_servers);
  __tsan_acquire(event.tag);
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t nops, void* tag,
                                      void* reserved) {
  static auto* const real = Real<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(tag);
  return real(call, ops, nops, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static auto* const real =
      Real<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = real(queue, deadline, reserved);
  Acquire(event);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static auto* const real =
      Real<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = real(queue, tag, deadline, reserved);
  Acquire(event);
  return event;
}

void grpc_server_start(grpc_server* server) {
  static auto* const real = Real<decltype(grpc_server_start)>("grpc_server_start");
  __tsan_release(&started_servers);
  real(server);
}

grpc_call_error grpc_server_request_registered_call(
    grpc_server* server, void* method, grpc_call** call, gpr_timespec* deadline,
    grpc_metadata_array* metadata, grpc_byte_buffer** payload, grpc_completion_queue* of_call,
    grpc_completion_queue* of_notification, void* tag) {
  static auto* const real =
      Real<decltype(grpc_server_request_registered_call)>("grpc_server_request_registered_call");
  __tsan_release(tag);
  return real(server, method, call, deadline, metadata, payload, of_call, of_notification, tag);
}

}  // extern "C"

// gRPC's own function by which every operation ends.
void grpc_cq_end_op(grpc_completion_queue* queue, void* tag, absl::Status error,
                    void (*done)(void*, grpc_cq_completion*), void* done_arg,
                    grpc_cq_completion* storage, bool internal) {
  static auto* const real = Real<decltype(grpc_cq_end_op)>(
      "_Z14grpc_cq_end_opP21grpc_completion_queuePvN4absl7debian36StatusEPFvS1_P18grpc_cq_"
      "completionES1_S6_b");
  __tsan_release(tag);
  real(queue, tag, std::move(error), done, done_arg, storage, internal);
}

namespace grpc::internal {

namespace {

// Calls OnCancel, and announces its end: the library counts it among what OnDone waits for.
class CancelReaction final : public ServerReactor {
 public:
  CancelReaction(ServerReactor* reactor, void* ended) : reactor_(reactor), ended_(ended) {}

  void OnCancel() override {
    reactor_->OnCancel();
    __tsan_release(ended_);
    delete this;
  }
  void OnDone() override {}
  bool InternalInlineable() override { return reactor_->InternalInlineable(); }

 private:
  ServerReactor* const reactor_;
  void* const ended_;
};

}  // namespace

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  static auto* const real = Real<void(ServerCallbackCall*, ServerReactor*)>(
      "_ZN4grpc8internal18ServerCallbackCall12CallOnCancelEPNS0_13ServerReactorE");
  __tsan_acquire(&on_cancel_conditions_remaining_);
  real(this, new CancelReaction(reactor, &callbacks_outstanding_));
}

void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  static auto* const real = Real<void(ServerCallbackCall*, bool)>(
      "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  __tsan_acquire(&callbacks_outstanding_);
  real(this, inline_ondone);
}

}  // namespace grpc::internal

namespace grpc {

void Server::UnrefWithPossibleNotify() {
  static auto* const real = Real<void(Server*)>("_ZN4grpc6Server23UnrefWithPossibleNotifyEv");
  __tsan_release(this);
  real(this);
}

void Server::UnrefAndWaitLocked() {
  static auto* const real = Real<void(Server*)>("_ZN4grpc6Server18UnrefAndWaitLockedEv");
  real(this);
  __tsan_acquire(this);
}

}  // namespace grpc
