// MakeStream makes the ByteStream of an accepted socket, plain or with TLS. ServerTls is the
// server's certificate and key.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_SOCKET_STREAMS_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_SOCKET_STREAMS_H_

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/base/unique_fd.h"
#include "services/gateway/http/byte_stream.h"

namespace folio::gateway {

// Immutable, and thread-safe as OpenSSL's contexts are.
class ServerTls {
 public:
  // Reads a certificate with its chain, and its key, both as PEM. The least version is TLS 1.2. If
  // `client_ca` is not empty, clients must show a certificate that one of these authorities signed.
  // INVALID_ARGUMENT names the file and says why it cannot be used.
  static absl::StatusOr<std::shared_ptr<ServerTls>> Load(const std::string& certificate,
                                                         const std::string& key,
                                                         const std::string& client_ca);
  virtual ~ServerTls() = default;
};

// The socket does not block. `tls` is null for a plain connection. Returns null if the socket
// cannot be used any more.
std::unique_ptr<ByteStream> MakeStream(boost::asio::io_context& loop, UniqueFd socket,
                                       const std::shared_ptr<ServerTls>& tls);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_SOCKET_STREAMS_H_
