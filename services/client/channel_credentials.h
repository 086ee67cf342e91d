// MakeChannelCredentials makes gRPC's credentials of a connection, plain or with TLS. It is for the
// clients of this folder.
#ifndef FOLIO_SERVICES_CLIENT_CHANNEL_CREDENTIALS_H_
#define FOLIO_SERVICES_CLIENT_CHANNEL_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/client/call.h"

namespace folio::client {

// Plain without `tls` and for Unix sockets. Adds to `arguments` the name that the server's
// certificate has. INVALID_ARGUMENT names the file that cannot be read or is not PEM, or that
// another one needs. Connections with the same files share a thread that reads them again when they
// change. Thread-safe.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    absl::string_view address, const std::optional<TlsOptions>& tls,
    grpc::ChannelArguments* arguments);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CHANNEL_CREDENTIALS_H_
