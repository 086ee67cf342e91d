// GrpcServer is the gRPC server of every Folio daemon. It listens on several addresses, serves
// grpc.health.v1 and reflection, and replaces socket files of dead processes but not of live ones.
#ifndef FOLIO_SERVICES_GRPC_GRPC_SERVER_H_
#define FOLIO_SERVICES_GRPC_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/service_manager.h"
#include "services/runtime/socket_acceptor.h"

namespace folio {

// Makes gRPC's own messages lines of our log from now on. GrpcServer::Start does it too. Call it
// earlier if the program makes a channel before it starts a server. Idempotent.
void LogForGrpc();

struct GrpcServerOptions {
  std::vector<ListenAddress> listen;
  std::vector<grpc::Service*> services;  // borrowed; must outlive the server
  // Full names of the services whose health is reported, for example
  // `v1::Admin::service_full_name()`, besides "" (the server as a whole). gRPC does not offer a
  // list.
  std::vector<std::string> health_names;
  // Sockets that the service manager has opened at addresses of `listen`; borrowed during Start.
  InheritedSockets* inherited = nullptr;
  int max_receive_bytes = 64 << 20;
  mode_t socket_mode = 0660;  // of Unix socket files
};

// Serves from Start until Shutdown or destruction. Thread-safe.
class GrpcServer {
 public:
  // FAILED_PRECONDITION if another process listens on a socket, UNAVAILABLE if an address cannot be
  // bound. The health service then reports SERVING.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options);
  ~GrpcServer();

  // The addresses that are listened on, with the ports that were chosen for 0.
  const std::vector<ListenAddress>& addresses() const { return addresses_; }

  // Health of the server as a whole and of each of `health_names`.
  void SetServing(bool serving);

  // Refuses new calls, gives running ones `grace`, then cancels them and removes the socket files
  // that it has made.
  // Idempotent, and the first call's grace counts.
  void Shutdown(absl::Duration grace);

 private:
  GrpcServer() = default;
  // Before and after the server starts. `port` is 0 if the address could not be bound.
  absl::Status AddListener(const ListenAddress& wanted, InheritedSockets* inherited,
                           grpc::ServerBuilder& builder, int* port);
  absl::Status CheckListens(const ListenAddress& wanted, int port, mode_t socket_mode);

  // Moves the connections of inherited sockets into gRPC, which cannot listen on them itself.
  struct Adopted {
    UniqueFd socket;  // until it moves into `from`
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> into;
    std::unique_ptr<SocketAcceptor> from;
  };

  std::unique_ptr<grpc::Server> server_;
  std::vector<Adopted> adopted_;  // destroyed before the server
  std::vector<ListenAddress> addresses_;
  std::vector<std::string> files_;  // socket files to remove
  std::vector<std::string> health_names_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_GRPC_SERVER_H_
