// A gRPC server as every Folio daemon has it: several addresses, grpc.health.v1, reflection, socket
// files that replace dead ones and never live ones.
#ifndef FOLIO_SERVICES_COMMON_GRPC_SERVER_H_
#define FOLIO_SERVICES_COMMON_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/common/listen_address.h"

namespace folio {

// From now on gRPC's own complaints are lines of our log. GrpcServer::Start does it; call it
// earlier where a channel is made before. Idempotent.
void LogForGrpc();

struct GrpcServerOptions {
  std::vector<ListenAddress> listen;
  std::vector<grpc::Service*> services;  // borrowed; must outlive the server
  // Full names that health is told for, "" (the server as a whole) being always one. gRPC does not
  // tell them: give `v1::Admin::service_full_name()` and so on.
  std::vector<std::string> health_names;
  int max_receive_bytes = 64 << 20;
  mode_t socket_mode = 0660;  // of Unix socket files
};

// Serves from Start until Shutdown or destruction. Thread-safe.
class GrpcServer {
 public:
  // FAILED_PRECONDITION when another process listens on a socket; UNAVAILABLE when an address
  // cannot be bound. The health service says SERVING.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options);
  ~GrpcServer();

  // What is listened on, with the ports that were chosen for 0.
  const std::vector<ListenAddress>& addresses() const { return addresses_; }

  // Health of the server as a whole and of each of `health_names`.
  void SetServing(bool serving);

  // Refuses new calls, gives running ones `grace`, then cancels them; removes the socket files.
  // Idempotent; the first call's grace counts.
  void Shutdown(absl::Duration grace);

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::Server> server_;
  std::vector<ListenAddress> addresses_;
  std::vector<std::string> health_names_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_GRPC_SERVER_H_
