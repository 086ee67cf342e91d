// Endpoint is a connected gRPC channel with the words of its errors. It is for the clients of this
// folder.
#ifndef FOLIO_SERVICES_CLIENT_CHANNEL_H_
#define FOLIO_SERVICES_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/client/call.h"
#include "services/client/call_token.h"
#include "services/client/channel_credentials.h"

namespace folio::client {

// gRPC would wait for up to two minutes before it connects again to a server that was lost. This is
// GRPC_ARG_MAX_RECONNECT_BACKOFF_MS of clients that outlive servers.
inline constexpr int kLongestBackoffMs = 1000;

// Immutable and thread-safe once made.
struct Endpoint {
  std::string name;  // for messages: `worker at "unix:/run/folio/worker.sock"`
  std::shared_ptr<grpc::Channel> channel;
  TlsUse tls;
  std::shared_ptr<CallToken> token;  // null if calls carry none
};

// INVALID_ARGUMENT if the text is not an address.
absl::Status CheckAddress(absl::string_view address);

// `role` is "worker" or "manager". INVALID_ARGUMENT if the text is not an address or an option is
// out of range. UNAVAILABLE names the address and the reason if nothing answers there. `arguments`
// are for what no option says.
absl::StatusOr<Endpoint> Connect(absl::string_view role, absl::string_view address,
                                 const ConnectOptions& options,
                                 grpc::ChannelArguments arguments = {});

// The server's code and words. The address is added if the words are not the server's.
absl::Status FromGrpc(const Endpoint& endpoint, const grpc::Status& status);

// True if the server's health is SERVING, or that of one of its services, such as "folio.v1.Admin".
// NOT_FOUND if it does not have the service.
absl::StatusOr<bool> CheckHealth(const Endpoint& endpoint, const CallOptions& options,
                                 absl::string_view service = "");

// Runs one unary call to its end. `start` begins it with gRPC's callback interface.
absl::Status Call(
    const Endpoint& endpoint, const CallOptions& options,
    const std::function<void(grpc::ClientContext*, std::function<void(grpc::Status)>)>& start);

// The same for a call that only has a request and a response. `method` is a member of the stub's
// callback interface, for example &v1::Admin::Stub::async_interface::ListPools.
template <typename Interface, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(const Endpoint& endpoint,
                                   std::type_identity_t<Interface>* callbacks,
                                   void (Interface::*method)(grpc::ClientContext*, const Request*,
                                                             Response*,
                                                             std::function<void(grpc::Status)>),
                                   const Request& request, const CallOptions& options) {
  Response response;
  absl::Status status = Call(endpoint, options, [&](grpc::ClientContext* context, auto done) {
    (callbacks->*method)(context, &request, &response, std::move(done));
  });
  if (!status.ok()) return status;
  return response;
}

// Sets the deadline and the metadata, with the token.
void Prepare(const Endpoint& endpoint, const CallOptions& options, grpc::ClientContext* context);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CHANNEL_H_
