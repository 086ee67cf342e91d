// MessageJson writes a message of the protocol as JSON, for tools that show it.
#ifndef FOLIO_SERVICES_CLIENT_MESSAGE_JSON_H_
#define FOLIO_SERVICES_CLIENT_MESSAGE_JSON_H_

#include <string>

#include "google/protobuf/message.h"

namespace folio::client {

// Protocol Buffers' own mapping, with the names of the .proto files. 64-bit integers are strings,
// and fields that cannot be unset are always there. With `pretty` it has several lines and ends in
// a line break, otherwise it is one line without.
std::string MessageJson(const google::protobuf::Message& message, bool pretty = false);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_MESSAGE_JSON_H_
