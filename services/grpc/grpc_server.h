// GrpcServer is the gRPC server of every Folio daemon. It listens on several addresses, serves
// grpc.health.v1 and reflection, and replaces socket files of dead processes but not of live ones.
//
// It accepts connections itself and hands them to gRPC. After one accept() that fails for lack of
// descriptors, the gRPC 1.51 of Debian 12 is deaf for good (CVE-2023-4785), and it has no limit of
// connections.
//
// TCP speaks TLS if the server has a certificate. Unix sockets never do, since only processes of
// this machine that have permission reach them.
#ifndef FOLIO_SERVICES_GRPC_GRPC_SERVER_H_
#define FOLIO_SERVICES_GRPC_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/grpc/keepalive.h"
#include "services/grpc/unread_answers.h"
#include "services/runtime/certificate_files.h"
#include "services/runtime/connection_limit.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/listening_socket.h"
#include "services/runtime/service_manager.h"
#include "services/runtime/socket_acceptor.h"

namespace folio {

// The name under which grpc.health.v1 tells whether the process answers at all: it is SERVING from
// the start to the end, also while the daemon drains or waits. An orchestrator that ends processes
// asks for it, and one that chooses where requests go asks for "".
inline constexpr char kLiveness[] = "liveness";

// After these times a connection that is silent in one of these ways is closed. Tests take shorter
// ones.
struct ConnectionTimeouts {
  // From its start until the client has said that it speaks HTTP/2. gRPC's own default of two
  // minutes lets connections that say nothing pile up.
  absl::Duration handshake = absl::Seconds(20);
  // During a call, without a word from the client until it is asked whether it is there, and until
  // its answer.
  absl::Duration keepalive = absl::Milliseconds(kServerKeepaliveTimeMs);
  absl::Duration keepalive_answer = absl::Milliseconds(kServerKeepaliveTimeoutMs);
  // Without a call. It is long, because a client that does not read between its calls, such as
  // grpcio, learns of the end by the failure of its next one. A worker's Session is a call that
  // lasts.
  absl::Duration idle = absl::Hours(24);
};

struct GrpcServerOptions {
  std::vector<ListenAddress> listen;
  std::vector<grpc::Service*> services;  // borrowed; must outlive the server
  // Full names of the services whose health is reported, for example
  // `v1::Admin::service_full_name()`, besides "" (the server as a whole) and kLiveness. gRPC does
  // not offer a list.
  std::vector<std::string> health_names;
  // Sockets that the service manager has opened at addresses of `listen`; borrowed during Start.
  InheritedSockets* inherited = nullptr;
  int max_receive_bytes = 64 << 20;
  mode_t socket_mode = 0660;  // of Unix socket files
  // Encrypts TCP. None if null. Clients must show a certificate if it has authorities for them.
  std::shared_ptr<CertificateFiles> certificate;
  // Allows plain TCP where other machines reach it. Otherwise Start refuses it if there are
  // `services`.
  bool insecure_tcp = false;
  // Counts the connections and refuses those above its limit; borrowed. No limit if null.
  ConnectionLimit* connections = nullptr;
  ConnectionTimeouts timeouts;
  // Calls that one connection may have at a time. By default a gateway with one connection can fill
  // the largest --max_batch (1024) and have as many calls wait. Further calls wait at the client.
  int max_calls = 2048;
  // Answers of unary calls that may wait to be sent; see UnreadAnswers. No limit if 0.
  size_t max_unread_answers = 0;
  // The services know their callers, so that reaching an address is not enough.
  bool knows_callers = false;
  // The warning of an address that other machines may reach. A constant sentence.
  absl::string_view open_warning =
      "anybody who reaches this address can use the daemon and administrate its cache";
};

// Serves from Start until Shutdown or destruction. Thread-safe.
class GrpcServer {
 public:
  // Warns of each address that other machines may reach, unless clients must show a certificate,
  // it is encrypted and callers are known, or there are no `services`.
  // FAILED_PRECONDITION if another process listens on a socket, UNAVAILABLE if an address cannot be
  // bound, INVALID_ARGUMENT if it would be plain where other machines reach it. The health service
  // then reports SERVING.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options);
  ~GrpcServer();

  // The addresses that are listened on, with the ports that were chosen for 0.
  const std::vector<ListenAddress>& addresses() const { return addresses_; }

  // Health of the server as a whole (the name "") and of each of `health_names`, without kLiveness.
  void SetServing(bool serving);

  // Removes the socket files that it has made and refuses new calls. Gives running ones `grace`,
  // and then cancels them. Idempotent, and the first call's grace counts.
  void Shutdown(absl::Duration grace);

 private:
  GrpcServer() = default;
  absl::Status Listen(const GrpcServerOptions& options);
  // Starts to move connections into gRPC.
  void Accept(ConnectionLimit* connections);

  // A way into gRPC for accepted connections.
  using IntoGrpc = std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  std::unique_ptr<UnreadAnswers> unread_;         // null without a limit
  std::shared_ptr<grpc::ServerCredentials> tls_;  // null without a certificate
  std::unique_ptr<grpc::Server> server_;
  std::vector<ListenAddress> addresses_;
  std::vector<ListeningSocket> listening_;
  IntoGrpc plain_;
  IntoGrpc encrypted_;                        // for TCP; null without a certificate
  std::unique_ptr<SocketAcceptor> acceptor_;  // uses the last three
  std::vector<std::string> health_names_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_GRPC_SERVER_H_
