// HealthServer serves grpc.health.v1 and nothing else, on addresses of its own (--health_listen),
// for the probes of an orchestrator. It has connections of its own too: if clients could take them
// all, an orchestrator would take a busy daemon for a dead one and end it.
#ifndef FOLIO_SERVICES_GRPC_HEALTH_SERVER_H_
#define FOLIO_SERVICES_GRPC_HEALTH_SERVER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "services/grpc/grpc_server.h"
#include "services/runtime/connection_limit.h"
#include "services/runtime/listen_address.h"

namespace folio {

// Thread-safe.
class HealthServer {
 public:
  // Serves the health names of `api`, the options of the daemon's own server, on `listen`. It
  // serves nothing if `listen` is empty. The errors are those of GrpcServer::Start.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(
      const GrpcServerOptions& api, const std::vector<ListenAddress>& listen);

  // As GrpcServer::SetServing.
  void SetServing(bool serving);
  std::vector<ListenAddress> addresses() const;

 private:
  HealthServer();

  ConnectionLimit connections_;
  std::unique_ptr<GrpcServer> server_;  // null if it serves nothing
};

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_HEALTH_SERVER_H_
