#include "services/grpc/grpc_server.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "services/grpc/grpc_deadline.h"
#include "services/grpc/grpc_log.h"
#include "services/grpc/insecure_tcp_flag.h"
#include "services/grpc/server_credentials.h"
#include "services/runtime/logging.h"

namespace folio {
namespace {

// gRPC ends its threads when its last object is destroyed, and one of them may then be in a poll of
// ten seconds (gRPC 1.51, run_poller). Keeping one object forever lets a process end at once.
void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  (void)kept;
}

// A connection with a call has traffic twice in the silence after which ConnectionLimit closes one.
static_assert(absl::Milliseconds(2 * (kServerKeepaliveTimeMs + kServerKeepaliveTimeoutMs)) <
              ConnectionLimit::kSilence);

void BoundConnections(const GrpcServerOptions& options, grpc::ServerBuilder& builder) {
  const auto set = [&builder](const char* argument, absl::Duration time) {
    builder.AddChannelArgument(argument, static_cast<int>(absl::ToInt64Milliseconds(time)));
  };
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_calls);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options.timeouts.handshake);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.timeouts.idle);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, options.timeouts.keepalive);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.timeouts.keepalive_answer);
  // No PING while there is no call: grpcio does not read then, so its client would be taken for
  // lost. The kernel answers for it, see ListeningSocket.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  // Without the probe the flow-control windows stay at 64 KiB, and with it they grow to 16 MiB. A
  // peer of a daemon that stands still would then fill the socket, and gRPC cannot cancel a write
  // that waits for room in a socket. 64 KiB always find room there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
}

bool IsUnixSocket(const UniqueFd& socket) {
  int family = 0;
  socklen_t size = sizeof(family);
  return getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX;
}

}  // namespace

absl::Status GrpcServer::Listen(const GrpcServerOptions& options) {
  for (const ListenAddress& wanted : options.listen) {
    UniqueFd inherited;
    if (options.inherited != nullptr) inherited = options.inherited->Find(wanted.ToString());
    if (inherited.valid()) {
      listening_.push_back(ListeningSocket::Adopt(wanted, std::move(inherited)));
    } else {
      auto opened = ListeningSocket::Open(wanted, options.socket_mode);
      if (!opened.ok()) return opened.status();
      listening_.push_back(*std::move(opened));
    }
    addresses_.push_back(listening_.back().address());
    if (options.services.empty() || !listening_.back().is_open_to_network()) continue;
    if (options.certificate == nullptr && !options.insecure_tcp) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot listen on ", addresses_.back().ToString(), ": it ", kOpen));
    }
    if (options.certificate != nullptr &&
        (options.knows_callers ||
         !options.certificate->Current()->certificate.authorities.empty())) {
      continue;
    }
    log::Warning(
        options.knows_callers ? "tokens of callers are not encrypted on their way to this address"
                              : options.open_warning,
        {{"address", addresses_.back().ToString()},
         {"fix",
          "let only clients with a certificate in (--tls_client_ca), listen on a Unix socket "
          "(unix:/path) or on loopback (127.0.0.1:PORT), or let only peers that you trust into the "
          "network"}});
  }
  return absl::OkStatus();
}

void GrpcServer::Accept(ConnectionLimit* connections) {
  std::vector<int> descriptors;
  for (const ListeningSocket& listening : listening_) {
    for (const UniqueFd& socket : listening.sockets()) descriptors.push_back(socket.get());
  }
  const auto hand_over = [this](UniqueFd connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    // As gRPC opens its own. It closes the descriptor.
    fcntl(connection.get(), F_SETFL, O_NONBLOCK);
    const bool plain = encrypted_ == nullptr || IsUnixSocket(connection);
    parameters.fd = connection.Release();
    (plain ? plain_ : encrypted_)->HandleNewConnection(&parameters);
  };
  acceptor_ = std::make_unique<SocketAcceptor>(std::move(descriptors), hand_over, connections);
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options) {
  KeepGrpc();
  LogForGrpc();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // Naming the plugin links it in. Reflection describes every service whose descriptors are linked.
  grpc::health::v1::HealthCheckRequest::descriptor();

  std::unique_ptr<GrpcServer> started(new GrpcServer());
  // From here on clients can connect, and wait in the backlog.
  if (absl::Status status = started->Listen(options); !status.ok()) return status;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  BoundConnections(options, builder);
  if (options.max_unread_answers > 0) {
    started->unread_ = std::make_unique<UnreadAnswers>(options.max_unread_answers);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
    creators.push_back(started->unread_->MakeInterceptors());
    builder.experimental().SetInterceptorCreators(std::move(creators));
  }
  constexpr auto kFromDescriptors =
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;
  started->plain_ = builder.experimental().AddExternalConnectionAcceptor(
      kFromDescriptors, grpc::InsecureServerCredentials());
  if (options.certificate != nullptr) {
    started->tls_ = MakeServerCredentials(options.certificate);
    started->encrypted_ =
        builder.experimental().AddExternalConnectionAcceptor(kFromDescriptors, started->tls_);
  }
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  started->server_ = builder.BuildAndStart();
  if (started->server_ == nullptr) {
    return absl::InternalError("gRPC cannot start a server; its lines in the log say why");
  }
  started->health_names_ = options.health_names;
  started->SetServing(true);
  started->server_->GetHealthCheckService()->SetServingStatus(kLiveness, true);
  started->Accept(options.connections);
  return started;
}

GrpcServer::~GrpcServer() { Shutdown(absl::ZeroDuration()); }

void GrpcServer::SetServing(bool serving) {
  if (server_ == nullptr) return;
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  for (const std::string& name : health_names_) health->SetServingStatus(name, serving);
  // Without a name it would set those of all names, also kLiveness.
  health->SetServingStatus("", serving);
}

void GrpcServer::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) return;
  acceptor_.reset();
  listening_.clear();
  server_->Shutdown(GrpcDeadline(SteadyNow() + grace));
  server_->Wait();
  addresses_.clear();
}

}  // namespace folio
