// MakeChannelCredentials makes gRPC's credentials of a connection, plain or with TLS, and TlsHint
// explains its failure. They are for the clients of this folder.
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
// certificate has. INVALID_ARGUMENT names the file that cannot be used (see ReadCertificate), or
// says that another one is needed. Connections with the same files share a thread that reads them
// again when they change. Thread-safe.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    absl::string_view address, const std::optional<TlsOptions>& tls,
    grpc::ChannelArguments* arguments);

// How a connection encrypts, for the words of its errors.
enum class TlsUse { kUnixSocket, kPlain, kEncrypted, kWithCertificate };
TlsUse UseOfTls(absl::string_view address, const std::optional<TlsOptions>& tls);

// The fix to add to gRPC's reason why no connection came about, which does not say that only one
// side encrypts, or that the server asks for a certificate. Empty for other reasons.
absl::string_view TlsHint(TlsUse use, absl::string_view why);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CHANNEL_CREDENTIALS_H_
