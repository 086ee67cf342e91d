#include "services/gateway/http/request_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace folio::gateway {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

// The shortest end of a chunked body, "0", an empty line and what ends both.
constexpr size_t kShortestEnd = 5;

absl::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Fills in the path and the query of "/a?b" or of "http://host/a".
void ReadTarget(absl::string_view target, HttpRequest* request) {
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    const size_t slash = target.find('/', scheme.size());
    target = slash == absl::string_view::npos ? "/" : target.substr(slash);
    break;
  }
  target = target.substr(0, target.find('#'));
  std::pair<std::string, std::string> parts = absl::StrSplit(target, absl::MaxSplits('?', 1));
  std::tie(request->path, request->query) = std::move(parts);
}

}  // namespace

RequestReader::RequestReader(const RequestLimits& limits) : limits_(limits) {
  parser_.eager(true);
  parser_.header_limit(limits.head_bytes);
  parser_.body_limit(limits.body_bytes);
}

size_t RequestReader::Feed(absl::string_view input) {
  size_t used = 0;
  if (!started_) {
    // Empty lines before a request are allowed, RFC 9112 2.2.
    while (used < input.size() && (input[used] == '\r' || input[used] == '\n')) ++used;
    started_ = used < input.size();
  }
  while (used < input.size() && !refusal_.has_value() && !done()) {
    // Beast takes a last chunk that it has seen before for a longer one, and ends the program where
    // assertions count. Fewer bytes cannot end the request.
    if (head_done() && parser_.chunked() && input[used] == '0' &&
        input.size() - used < kShortestEnd) {
      break;
    }
    error_code error;
    const size_t taken =
        parser_.put(boost::asio::buffer(input.data() + used, input.size() - used), error);
    used += taken;
    if (error && error != http::error::need_more) {
      Refuse(error);
    } else if (head_done() && !checked_) {
      CheckHead();
    }
    if (taken == 0) break;
  }
  return used;
}

void RequestReader::Refuse(const error_code& error) {
  if (error == http::error::header_limit) {
    refusal_ = {
        431, absl::StrCat("The request's header is larger than ", limits_.head_bytes, " bytes.")};
  } else if (error == http::error::body_limit) {
    refusal_ = {413,
                absl::StrCat("The request's body is larger than ", limits_.body_bytes, " bytes.")};
  } else if (error == http::error::bad_version) {
    refusal_ = {505, "Only HTTP/1.1 and HTTP/1.0 are spoken here."};
  } else {
    refusal_ = {400, absl::StrCat("This is not an HTTP request: ", error.message(), ".")};
  }
}

void RequestReader::CheckHead() {
  checked_ = true;
  const auto& head = parser_.get();
  const int version = static_cast<int>(head.version());
  if (version != 11 && version != 10) {
    Refuse(http::error::bad_version);
  } else if (head.count(http::field::host) != 1 && version == 11) {
    refusal_ = {400, "A request of HTTP/1.1 has exactly one Host field."};
  } else if (head.count(http::field::transfer_encoding) > 0 &&
             (head.count(http::field::content_length) > 0 || version == 10)) {
    // Two servers in a row could read such a request differently.
    refusal_ = {400, "A request has either Content-Length or, in HTTP/1.1, Transfer-Encoding."};
  } else if (head.count(http::field::transfer_encoding) > 0 && !parser_.chunked()) {
    refusal_ = {501, "The only transfer encoding that is understood is chunked."};
  } else if (head.count(http::field::content_encoding) > 0 &&
             !absl::EqualsIgnoreCase(View(head[http::field::content_encoding]), "identity")) {
    refusal_ = {415, "A body that is compressed is not understood."};
  }
}

bool RequestReader::expects_continue() const {
  return head_done() && !done() && parser_.get().version() == 11 &&
         absl::EqualsIgnoreCase(View(parser_.get()[http::field::expect]), "100-continue");
}

HttpRequest RequestReader::Take() {
  auto message = parser_.release();
  HttpRequest request;
  request.method = std::string(View(message.method_string()));
  ReadTarget(View(message.target()), &request);
  request.version_1_0 = message.version() == 10;
  request.keep_alive = message.keep_alive();
  for (const auto& field : message) {
    request.fields.emplace_back(std::string(View(field.name_string())),
                                std::string(View(field.value())));
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace folio::gateway
