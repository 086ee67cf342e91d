// CheckUtf8 names the field of a message that is not UTF-8. gRPC refuses such a message without
// naming the field. It is for the clients of this folder.
#ifndef FOLIO_SERVICES_CLIENT_UTF8_CHECK_H_
#define FOLIO_SERVICES_CLIENT_UTF8_CHECK_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace folio::client {

// INVALID_ARGUMENT names the first string field (nested ones too) that is not UTF-8, and the byte.
absl::Status CheckUtf8(const google::protobuf::Message& message);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_UTF8_CHECK_H_
