#include "services/grpc/grpc_server.h"

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

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options) {
  // gRPC itself replaces any socket file, even one that is in use, so we check it first.
  for (const ListenAddress& address : options.listen) {
    if (!address.is_unix()) continue;
    if (auto status = RemoveStaleSocket(address.unix_path); !status.ok()) return status;
  }
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
  std::vector<int> ports(options.listen.size(), 0);
  for (size_t i = 0; i < options.listen.size(); ++i) {
    builder.AddListeningPort(options.listen[i].ToString(), grpc::InsecureServerCredentials(),
                             &ports[i]);
  }
  for (grpc::Service* service : options.services) builder.RegisterService(service);

  std::unique_ptr<GrpcServer> started(new GrpcServer());
  started->server_ = builder.BuildAndStart();
  for (size_t i = 0; i < options.listen.size(); ++i) {
    const ListenAddress& wanted = options.listen[i];
    if (started->server_ == nullptr || ports[i] == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", wanted.ToString(),
                       "; is the address ours, the port free and the directory writable?"));
    }
    ListenAddress bound = wanted;
    if (!wanted.is_unix()) bound.port = static_cast<uint16_t>(ports[i]);
    started->addresses_.push_back(std::move(bound));
    if (wanted.is_unix() && chmod(wanted.unix_path.c_str(), options.socket_mode) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot set the mode of ", wanted.unix_path));
    }
  }
  started->health_names_ = options.health_names;
  started->SetServing(true);
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
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
  for (const ListenAddress& address : addresses_) {
    if (address.is_unix()) unlink(address.unix_path.c_str());
  }
  addresses_.clear();
}

}  // namespace folio
