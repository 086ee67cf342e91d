// HttpServer listens, and serves every connection on one of a few threads.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_SERVER_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "services/gateway/http/connection.h"
#include "services/gateway/http/socket_streams.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/listening_socket.h"
#include "services/runtime/socket_acceptor.h"

namespace folio::gateway {

struct HttpServerOptions {
  std::vector<ListenAddress> listen;
  mode_t socket_mode = 0660;  // of Unix socket files
  int threads = 1;
  int max_connections = 1024;      // further ones are closed at once
  std::shared_ptr<ServerTls> tls;  // null for none
  ConnectionOptions connection;
};

// Serves from Start until destruction. Thread-safe.
class HttpServer {
 public:
  // Listens, and accepts no connection yet. Errors as of ListeningSocket::Open.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Make(HttpServerOptions options);
  // Once.
  void Start();
  // Closes all connections. Handlers are not called any more, but exchanges that they hold may
  // still be answered.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // With the ports that were chosen for 0.
  const std::vector<ListeningSocket>& listening() const { return listening_; }
  const ConnectionCounts& counts() const { return counts_; }

  // Connections that wait for a request are closed, and others after the answer that they give. New
  // ones are still accepted, for health checks and refusals.
  void Drain();

 private:
  class Loop;
  explicit HttpServer(HttpServerOptions options);
  void Accept(UniqueFd socket);

  const HttpServerOptions options_;
  ConnectionCounts counts_;
  std::vector<ListeningSocket> listening_;
  std::vector<std::unique_ptr<Loop>> loops_;
  size_t turn_ = 0;  // of the acceptor's thread
  std::unique_ptr<SocketAcceptor> acceptor_;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_SERVER_H_
