// ApiError is an error as OpenAI's API shows it. This header is the one place that turns statuses
// into errors of HTTP.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_API_ERROR_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_API_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace folio::gateway {

struct ApiError {
  int http = 500;
  std::string type;   // such as "invalid_request_error"
  std::string code;   // such as "model_not_found", or empty
  std::string param;  // the field of the request, or empty
  std::string message;
  int retry_after = 0;  // seconds after which the same request may succeed, or 0
};

// INVALID_ARGUMENT that names a field of the request, such as "messages[0].role".
absl::Status FieldError(absl::string_view param, absl::string_view message);

// The error of a status that is not OK. A status of a worker that names a field of the protocol,
// such as "sampling.top_p", gets the name of OpenAI's field as `param`.
//
//   INVALID_ARGUMENT, OUT_OF_RANGE, FAILED_PRECONDITION  400 invalid_request_error
//   UNAUTHENTICATED, the gateway is not known            502 server_error
//   PERMISSION_DENIED                                    403 permission_error
//   NOT_FOUND                                            404 invalid_request_error
//   RESOURCE_EXHAUSTED                                   429 rate_limit_error, to be tried again
//   CANCELLED                                            499 cancelled_error
//   UNIMPLEMENTED                                        501 invalid_request_error
//   UNAVAILABLE, ABORTED                                 503 service_unavailable_error, likewise
//   DEADLINE_EXCEEDED                                    504 timeout_error
//   all others                                           500 server_error
ApiError ErrorOf(const absl::Status& status);

// The same where a worker was looked for, so that NOT_FOUND is about the model.
ApiError ModelError(const absl::Status& status);

// An error that has no status of a call, such as 405.
ApiError HttpError(int http, absl::string_view message);
// 404 for a path.
ApiError NothingThere(absl::string_view message);

// {"error": {"message", "type", "param", "code"}}
std::string ErrorBody(const ApiError& error);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_API_ERROR_H_
