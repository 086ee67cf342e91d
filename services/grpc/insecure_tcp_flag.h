// CheckPlainTcp reads the flag --insecure_tcp, which manager and worker have.
#ifndef FOLIO_SERVICES_GRPC_INSECURE_TCP_FLAG_H_
#define FOLIO_SERVICES_GRPC_INSECURE_TCP_FLAG_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/runtime/listen_address.h"
#include "services/tls/certificate.h"

namespace folio {

// The words about such an address, behind its name.
inline constexpr char kOpen[] =
    "can be reached from other machines and has no encryption; give --tls_cert and --tls_key, or "
    "--insecure_tcp if you trust the network";

// The flag's value, for GrpcServerOptions.
bool InsecureTcpAllowed();

// INVALID_ARGUMENT if one of `addresses`, those of `flag`, can be reached from other machines, no
// certificate encrypts what is said there, and the flag does not allow that. It resolves names of
// hosts, and passes those that have no address yet. GrpcServer looks at the sockets themselves, but
// a worker makes one only when it has loaded its model.
absl::Status CheckPlainTcp(absl::string_view flag, const std::vector<ListenAddress>& addresses,
                           const TlsFiles& tls);

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_INSECURE_TCP_FLAG_H_
