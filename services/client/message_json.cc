#include "services/client/message_json.h"

#include "google/protobuf/util/json_util.h"
#include "services/base/check.h"

namespace folio::client {

std::string MessageJson(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  FOLIO_CHECK(google::protobuf::util::MessageToJsonString(message, &text, options).ok());
  return text;
}

}  // namespace folio::client
