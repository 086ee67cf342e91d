#include "services/grpc/grpc_server.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.pb.h"
#include "services/runtime/logging.h"
#include "services/runtime/unix_socket.h"

namespace folio {
namespace {

constexpr int kAdopted = -1;  // in place of the port of an address whose socket was inherited

// Writes gRPC's own messages in our format.
void LogOfGrpc(gpr_log_func_args* args) {
  const log::Level level = args->severity == GPR_LOG_SEVERITY_ERROR  ? log::Level::kWarning
                           : args->severity == GPR_LOG_SEVERITY_INFO ? log::Level::kInfo
                                                                     : log::Level::kDebug;
  log::Write(level, "grpc", {{"detail", args->message}, {"line", args->line}});
}

// gRPC ends its threads when its last object is destroyed, and one of them may then be in a poll of
// ten seconds (gRPC 1.51, run_poller). Keeping one object forever lets a process end at once.
void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  (void)kept;
}

}  // namespace

void LogForGrpc() { gpr_set_log_function(&LogOfGrpc); }

absl::Status GrpcServer::AddListener(const ListenAddress& wanted, InheritedSockets* inherited,
                                     grpc::ServerBuilder& builder, int* port) {
  constexpr auto kFromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;
  if (inherited != nullptr) {
    if (UniqueFd socket = inherited->Find(wanted.ToString()); socket.valid()) {
      auto into = builder.experimental().AddExternalConnectionAcceptor(
          kFromFd, grpc::InsecureServerCredentials());
      adopted_.push_back({std::move(socket), std::move(into), nullptr});
      *port = kAdopted;
      return absl::OkStatus();
    }
  }
  // gRPC itself replaces any socket file, even one that is in use, so we check it first.
  if (wanted.is_unix()) {
    if (auto status = RemoveStaleSocket(wanted.unix_path); !status.ok()) return status;
  }
  builder.AddListeningPort(wanted.ToString(), grpc::InsecureServerCredentials(), port);
  return absl::OkStatus();
}

absl::Status GrpcServer::CheckListens(const ListenAddress& wanted, int port, mode_t socket_mode) {
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", wanted.ToString(),
                     "; is the address ours, the port free and the directory writable?"));
  }
  addresses_.push_back(wanted);
  if (port == kAdopted) return absl::OkStatus();
  if (!wanted.is_unix()) {
    addresses_.back().port = static_cast<uint16_t>(port);
    return absl::OkStatus();
  }
  files_.push_back(wanted.unix_path);
  if (chmod(wanted.unix_path.c_str(), socket_mode) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot set the mode of ", wanted.unix_path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options) {
  KeepGrpc();
  LogForGrpc();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // Naming the plugin links it in. Reflection describes every service whose descriptors are linked.
  grpc::health::v1::HealthCheckRequest::descriptor();

  grpc::ServerBuilder builder;
  // Two servers on one TCP port would each get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  std::unique_ptr<GrpcServer> started(new GrpcServer());
  std::vector<int> ports(options.listen.size(), 0);
  for (size_t i = 0; i < options.listen.size(); ++i) {
    absl::Status status =
        started->AddListener(options.listen[i], options.inherited, builder, &ports[i]);
    if (!status.ok()) return status;
  }
  for (grpc::Service* service : options.services) builder.RegisterService(service);

  started->server_ = builder.BuildAndStart();
  for (size_t i = 0; i < options.listen.size(); ++i) {
    absl::Status status = started->CheckListens(options.listen[i], ports[i], options.socket_mode);
    if (!status.ok()) return status;
  }
  started->health_names_ = options.health_names;
  started->SetServing(true);
  for (Adopted& adopted : started->adopted_) {
    adopted.from = std::make_unique<SocketAcceptor>(
        std::move(adopted.socket), [into = adopted.into.get()](UniqueFd connection) {
          grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
          // As gRPC opens its own. It closes the descriptor.
          fcntl(connection.get(), F_SETFL, O_NONBLOCK);
          parameters.fd = connection.Release();
          into->HandleNewConnection(&parameters);
        });
  }
  return started;
}

GrpcServer::~GrpcServer() { Shutdown(absl::ZeroDuration()); }

void GrpcServer::SetServing(bool serving) {
  if (server_ == nullptr) return;
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  for (const std::string& name : health_names_) health->SetServingStatus(name, serving);
  health->SetServingStatus(serving);
}

void GrpcServer::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) return;
  for (Adopted& adopted : adopted_) adopted.from.reset();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
  for (const std::string& file : files_) unlink(file.c_str());
  files_.clear();
  addresses_.clear();
}

}  // namespace folio
