#include "services/gateway/http/status_text.h"

#include <boost/beast/http/status.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace folio::gateway {

const char* StatusText(int status) {
  namespace http = boost::beast::http;
  if (status == 499) return "Client Closed Request";
  const http::status known = http::int_to_status(static_cast<unsigned>(status));
  if (known == http::status::unknown) return "Unknown";
  return http::obsolete_reason(known).data();
}

std::string HttpDate() {
  return absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone());
}

}  // namespace folio::gateway
