#include "services/grpc/health_server.h"

#include <utility>

namespace folio {
namespace {

constexpr int kMaxConnections = 128;

}  // namespace

HealthServer::HealthServer() : connections_(kMaxConnections) {}

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(
    const GrpcServerOptions& api, const std::vector<ListenAddress>& listen) {
  std::unique_ptr<HealthServer> health(new HealthServer());
  if (listen.empty()) return health;
  GrpcServerOptions options = api;
  options.listen = listen;
  options.services.clear();
  // Probes of orchestrators speak no TLS, and health is not a secret.
  options.certificate = nullptr;
  options.connections = &health->connections_;
  auto server = GrpcServer::Start(options);
  if (!server.ok()) return server.status();
  health->server_ = *std::move(server);
  return health;
}

void HealthServer::SetServing(bool serving) {
  if (server_ != nullptr) server_->SetServing(serving);
}

std::vector<ListenAddress> HealthServer::addresses() const {
  return server_ == nullptr ? std::vector<ListenAddress>() : server_->addresses();
}

}  // namespace folio
