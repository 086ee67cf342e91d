// ByteStream is a connection as bytes that come and go, with or without TLS.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_BYTE_STREAM_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_BYTE_STREAM_H_

#include <boost/asio/buffer.hpp>
#include <cstddef>

#include "absl/strings/string_view.h"
#include "services/gateway/http/awaitable.h"

namespace folio::gateway {

// Used on the thread of its io_context alone. One read and one write may be under way at a time.
// Close ends both. An operation that has failed says no more than that it has.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Before anything else. False if the peer does not speak as it should.
  virtual boost::asio::awaitable<bool> Handshake() = 0;
  // Waits for bytes and returns how many came. 0: the peer sends no more, or a failure.
  virtual boost::asio::awaitable<size_t> Read(boost::asio::mutable_buffer into) = 0;
  // Writes as much as the system takes now, and returns how much. A failure shows in Write.
  virtual size_t WriteNow(absl::string_view bytes) = 0;
  // Waits until some bytes are written, and returns how many. 0: a failure.
  virtual boost::asio::awaitable<size_t> WriteSome(absl::string_view bytes) = 0;
  // Tells the peer that no more comes. It may wait for the peer's own farewell, until Close.
  virtual boost::asio::awaitable<void> EndOutput() = 0;
  virtual void Close() = 0;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_BYTE_STREAM_H_
