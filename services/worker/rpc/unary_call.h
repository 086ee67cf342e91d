// UnaryCall is a call with one answer. SlowClients ends it if its client leaves the answer unread,
// because gRPC keeps the answer until the client has taken it or the call has ended.
#ifndef FOLIO_SERVICES_WORKER_RPC_UNARY_CALL_H_
#define FOLIO_SERVICES_WORKER_RPC_UNARY_CALL_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "services/grpc/grpc_status.h"
#include "services/worker/rpc/slow_clients.h"

namespace folio::worker {

// It deletes itself when gRPC is done with it.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  // All are borrowed until gRPC's end.
  UnaryCall(SlowClients* slow_clients, grpc::CallbackServerContext* context,
            const google::protobuf::Message* response)
      : response_(response), unread_(slow_clients, context) {}

  // Gives the client the response, or the error. Once, from any thread. The call may be gone
  // afterwards.
  void Answer(const absl::Status& status) {
    unread_.Start(status.ok() ? response_->ByteSizeLong() : 0);
    Finish(ToGrpcStatus(status));
  }

  void OnDone() override { delete this; }

 private:
  const google::protobuf::Message* const response_;
  SlowClients::Watch unread_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_UNARY_CALL_H_
