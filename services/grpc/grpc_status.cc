#include "services/grpc/grpc_status.h"

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

}  // namespace folio
