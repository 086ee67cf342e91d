// RequestReader makes a request of the bytes that a client sends. It reads HTTP/1.1 and 1.0 with
// Boost.Beast's parser.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_REQUEST_READER_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_REQUEST_READER_H_

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "services/gateway/http/message.h"

namespace folio::gateway {

struct RequestLimits {
  uint32_t head_bytes = 32 << 10;  // request line and header
  uint64_t body_bytes = 32 << 20;
};

// One request. Thread-compatible.
class RequestReader {
 public:
  explicit RequestReader(const RequestLimits& limits);

  // Takes bytes from the front of `input` and returns how many. The others are to be given again,
  // with those that follow.
  size_t Feed(absl::string_view input);

  // Whether a first byte has come.
  bool started() const { return started_; }
  bool head_done() const { return parser_.is_header_done(); }
  bool done() const { return parser_.is_done(); }
  // The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;

  // Why it is not a request, with the status that says so. Nothing else may be read from the
  // connection then.
  struct Refusal {
    int status = 400;
    std::string message;
  };
  const std::optional<Refusal>& refusal() const { return refusal_; }

  // Once it is done.
  HttpRequest Take();

 private:
  void Refuse(const boost::beast::error_code& error);
  // Looks for mistakes that the parser lets pass.
  void CheckHead();

  const RequestLimits limits_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  bool started_ = false;
  bool checked_ = false;
  std::optional<Refusal> refusal_;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_REQUEST_READER_H_
