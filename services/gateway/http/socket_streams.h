// MakeStream makes the ByteStream of an accepted socket, plain or with TLS.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_SOCKET_STREAMS_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_SOCKET_STREAMS_H_

#include <boost/asio/io_context.hpp>
#include <memory>

#include "services/base/unique_fd.h"
#include "services/gateway/http/byte_stream.h"
#include "services/gateway/http/server_tls.h"

namespace folio::gateway {

// The socket does not block. `tls` is null for a plain connection. Returns null if the socket
// cannot be used any more.
std::unique_ptr<ByteStream> MakeStream(boost::asio::io_context& loop, UniqueFd socket,
                                       const std::shared_ptr<TlsContext>& tls);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_SOCKET_STREAMS_H_
