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

  // Refuses new calls, gives running ones `grace`, then cancels them and removes the socket files.
  // Idempotent, and the first call's grace counts.
  void Shutdown(absl::Duration grace);

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::Server> server_;
  std::vector<ListenAddress> addresses_;
  std::vector<std::string> health_names_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_GRPC_SERVER_H_
