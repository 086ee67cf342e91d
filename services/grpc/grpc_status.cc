#include "services/grpc/grpc_status.h"

#include <grpc/grpc.h>

#include <string>

namespace folio {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // code() folds unknown codes into UNKNOWN.
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return {known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
          status.error_message()};
}

void EndCall(grpc::ServerContext* context, const absl::Status& why) {
  // The library's own TryCancel is this call with another code. A server that has not sent a status
  // yet sends this one (gRPC 1.51, grpc_chttp2_cancel_stream).
  grpc_call_cancel_with_status(context->c_call(), static_cast<grpc_status_code>(why.code()),
                               std::string(why.message()).c_str(), nullptr);
}

}  // namespace folio
