// HttpRequest and HttpReply are a request and its answer as plain values.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_MESSAGE_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_MESSAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace folio::gateway {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;   // of the target, without a query
  std::string query;  // behind the question mark, as it was sent
  HttpFields fields;
  std::string body;
  std::string peer;  // "127.0.0.1:50000", or "unix"
  bool version_1_0 = false;
  bool keep_alive = true;

  // The first field of that name, in any case. Empty if there is none.
  absl::string_view Field(absl::string_view name) const {
    for (const auto& [key, value] : fields) {
      if (absl::EqualsIgnoreCase(key, name)) return value;
    }
    return "";
  }
};

struct HttpReply {
  int status = 200;
  std::string type = "application/json";  // of the body
  HttpFields fields = {};                 // further ones
  std::string body = {};
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_MESSAGE_H_
