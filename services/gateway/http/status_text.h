// StatusText and HttpDate are the words of an answer's first lines.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_STATUS_TEXT_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_STATUS_TEXT_H_

#include <string>

namespace folio::gateway {

// "Not Found" for 404, and "Unknown" for a number that the gateway does not send.
const char* StatusText(int status);
// The time of day as RFC 9110 wants it: "Thu, 02 Jan 2026 03:04:05 GMT".
std::string HttpDate();

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_STATUS_TEXT_H_
