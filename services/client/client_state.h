// State is the connection that clients and generations share. It is private to this folder.
#ifndef FOLIO_SERVICES_CLIENT_CLIENT_STATE_H_
#define FOLIO_SERVICES_CLIENT_CLIENT_STATE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/v1/inference.grpc.pb.h"
#include "services/client/channel.h"
#include "services/client/client.h"

namespace folio::client {

// Immutable.
class Client::State {
 public:
  using Callbacks = folio::v1::Inference::Stub::async_interface;

  State(Endpoint to, std::vector<std::string> all, ConnectOptions options)
      : endpoint(std::move(to)),
        stub(folio::v1::Inference::NewStub(endpoint.channel)),
        addresses(std::move(all)),
        connect(std::move(options)) {}

  const Endpoint endpoint;
  const std::unique_ptr<folio::v1::Inference::Stub> stub;
  const std::vector<std::string> addresses;  // the endpoint's, then the standby ones
  const ConnectOptions connect;              // of all of them
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CLIENT_STATE_H_
