// This header calls the standard services (grpc.health.v1, server reflection) with bytes, since
// their messages are not part of Folio's protocol.
#ifndef FOLIO_TESTS_MANAGER_RAW_GRPC_H_
#define FOLIO_TESTS_MANAGER_RAW_GRPC_H_

#include <string>

#include "absl/status/statusor.h"

namespace folio::testing {

// "SERVING", "NOT_SERVING", ... for the service, "" being the server as a whole.
absl::StatusOr<std::string> Health(const std::string& address, const std::string& service = "");

// The answer of server reflection to "list services": serialized, names in clear.
absl::StatusOr<std::string> ReflectedServices(const std::string& address);

}  // namespace folio::testing

#endif  // FOLIO_TESTS_MANAGER_RAW_GRPC_H_
