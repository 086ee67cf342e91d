// State is the connection of a manager's client. It is private to this folder.
#ifndef FOLIO_SERVICES_CLIENT_ADMIN_CLIENT_STATE_H_
#define FOLIO_SERVICES_CLIENT_ADMIN_CLIENT_STATE_H_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "folio/v1/admin.grpc.pb.h"
#include "services/client/admin_client.h"
#include "services/client/channel.h"

namespace folio::client {

// UNIMPLEMENTED says so if the address is for workers alone.
absl::Status ExplainUnimplemented(const Endpoint& endpoint, absl::Status status,
                                  const CallOptions& options);

// Immutable.
class AdminClient::State {
 public:
  using Callbacks = folio::v1::Admin::Stub::async_interface;

  explicit State(Endpoint to)
      : endpoint(std::move(to)), stub(folio::v1::Admin::NewStub(endpoint.channel)) {}

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(void (Callbacks::*method)(grpc::ClientContext*, const Request*,
                                                          Response*,
                                                          std::function<void(grpc::Status)>),
                                const std::type_identity_t<Request>& request,
                                const CallOptions& options) const {
    auto response = CallUnary(endpoint, stub->async(), method, request, options);
    if (response.ok()) return response;
    return ExplainUnimplemented(endpoint, response.status(), options);
  }

  const Endpoint endpoint;
  const std::unique_ptr<folio::v1::Admin::Stub> stub;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_ADMIN_CLIENT_STATE_H_
