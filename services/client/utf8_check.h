// gRPC refuses a message with a string that is no UTF-8 in words that help nobody. For the clients
// of this folder.
#ifndef FOLIO_SERVICES_CLIENT_UTF8_CHECK_H_
#define FOLIO_SERVICES_CLIENT_UTF8_CHECK_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace folio::client {

// INVALID_ARGUMENT naming the first string field (nested ones too) that is no UTF-8, and where.
absl::Status CheckUtf8(const google::protobuf::Message& message);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_UTF8_CHECK_H_
