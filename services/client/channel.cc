#include "services/client/channel.h"

#include <grpcpp/create_channel.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "services/client/channel_credentials.h"
#include "services/grpc/grpc_deadline.h"
#include "services/grpc/grpc_status.h"
#include "services/grpc/keepalive.h"

namespace folio::client {
namespace {

// Score answers with candidates for thousands of tokens are larger than gRPC's default of 4 MiB.
constexpr int kMaxMessageBytes = 256 << 20;

static_assert(kKeepalive == absl::Milliseconds(kKeepaliveTimeMs));
static_assert(kKeepaliveTimeMs == 2 * kKeepaliveTimeoutMs);

absl::Status SetKeepalive(absl::Duration keepalive, grpc::ChannelArguments* arguments) {
  if (keepalive == absl::ZeroDuration()) return absl::OkStatus();
  constexpr absl::Duration kLeast = absl::Milliseconds(kLeastPingIntervalMs);
  constexpr absl::Duration kMost = absl::Hours(24);
  if (keepalive < kLeast || keepalive > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("keepalive ", absl::FormatDuration(keepalive), ": give 0 for none, or ",
                     absl::FormatDuration(kLeast), " to ", absl::FormatDuration(kMost)));
  }
  const int time = static_cast<int>(absl::ToInt64Milliseconds(keepalive));
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, time);
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, time / 2);
  // A worker may have nothing to say for longer than gRPC would keep asking.
  arguments->SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return absl::OkStatus();
}

grpc::Status Check(const Endpoint& endpoint, const CallOptions& options, bool wait_for_server,
                   grpc::health::v1::HealthCheckResponse* response,
                   absl::string_view service = "") {
  auto stub = grpc::health::v1::Health::NewStub(endpoint.channel);
  grpc::ClientContext context;
  Prepare(endpoint, options, &context);
  context.set_wait_for_ready(wait_for_server);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(service));
  absl::Notification done;
  grpc::Status status;
  stub->async()->Check(&context, &request, response, [&](grpc::Status result) {
    status = std::move(result);
    done.Notify();
  });
  const RunningCall running(options.cancellation, &context);
  done.WaitForNotification();
  return status;
}

}  // namespace

absl::Status CheckAddress(absl::string_view address) {
  if (address.empty()) return absl::InvalidArgumentError("address is empty");
  if (absl::StartsWith(address, "unix:")) {
    if (address.size() > 5) return absl::OkStatus();
    return absl::InvalidArgumentError("address \"unix:\" names no socket");
  }
  if (address[0] == '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", address, "\": for a Unix socket write unix:", address));
  }
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", address, "\" is neither unix:/path nor host:port"));
  }
  return absl::OkStatus();
}

void Prepare(const Endpoint& endpoint, const CallOptions& options, grpc::ClientContext* context) {
  if (options.deadline < SteadyTime::InfiniteFuture()) {
    context->set_deadline(GrpcDeadline(options.deadline));
  }
  for (const auto& [name, value] : options.metadata) context->AddMetadata(name, value);
  if (endpoint.token != nullptr) context->AddMetadata("authorization", endpoint.token->Header());
}

absl::Status FromGrpc(const Endpoint& endpoint, const grpc::Status& status) {
  absl::Status said = FromGrpcStatus(status);
  switch (said.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnimplemented:
      return {said.code(), absl::StrCat(endpoint.name, ": ", said.message(),
                                        TlsHint(endpoint.tls, said.message()))};
    case absl::StatusCode::kDeadlineExceeded:
      return {said.code(),
              absl::StrCat(endpoint.name, ": the deadline passed before the call ended")};
    case absl::StatusCode::kCancelled:
      return {said.code(), "the call was cancelled"};
    default:
      return said;
  }
}

absl::StatusOr<Endpoint> Connect(absl::string_view role, absl::string_view address,
                                 const ConnectOptions& options, grpc::ChannelArguments arguments) {
  if (absl::Status status = CheckAddress(address); !status.ok()) return status;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A server on this node is never behind a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A server that has come back is found within a second. By default it takes up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Channels are not shared, because a channel that another client left in back-off would make this
  // one fail too.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (absl::Status status = SetKeepalive(options.keepalive, &arguments); !status.ok()) {
    return status;
  }
  const auto credentials = MakeChannelCredentials(address, options.tls, &arguments);
  if (!credentials.ok()) return credentials.status();
  auto token = CallToken::Make(address, options);
  if (!token.ok()) return token.status();
  Endpoint endpoint{absl::StrCat(role, " at \"", address, "\""),
                    grpc::CreateCustomChannel(std::string(address), *credentials, arguments),
                    UseOfTls(address, options.tls), *std::move(token)};
  if (!options.check) return endpoint;
  // Only a call tells why a connection fails. Any answer from the server shows that it is there.
  CallOptions call;
  call.deadline = SteadyNow() + options.timeout;
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = Check(endpoint, call, options.wait_for_server, &response);
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(absl::StrCat("cannot reach the ", endpoint.name, ": ",
                                                 status.error_message(),
                                                 TlsHint(endpoint.tls, status.error_message())));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::UnavailableError(absl::StrCat("cannot reach the ", endpoint.name,
                                                 ": no answer within ",
                                                 absl::FormatDuration(options.timeout)));
    default:
      return endpoint;
  }
}

absl::StatusOr<bool> CheckHealth(const Endpoint& endpoint, const CallOptions& options,
                                 absl::string_view service) {
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      Check(endpoint, options, /*wait_for_server=*/false, &response, service);
  if (!status.ok()) return FromGrpc(endpoint, status);
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

absl::Status Call(
    const Endpoint& endpoint, const CallOptions& options,
    const std::function<void(grpc::ClientContext*, std::function<void(grpc::Status)>)>& start) {
  grpc::ClientContext context;
  Prepare(endpoint, options, &context);
  absl::Notification done;
  grpc::Status status;
  start(&context, [&](grpc::Status result) {
    status = std::move(result);
    done.Notify();
  });
  const RunningCall running(options.cancellation, &context);
  done.WaitForNotification();
  return FromGrpc(endpoint, status);
}

}  // namespace folio::client
