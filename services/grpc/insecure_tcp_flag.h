// CheckPlainTcp reads the flag --insecure_tcp, which manager and worker have.
#ifndef FOLIO_SERVICES_GRPC_INSECURE_TCP_FLAG_H_
#define FOLIO_SERVICES_GRPC_INSECURE_TCP_FLAG_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/runtime/certificate_files.h"
#include "services/runtime/listen_address.h"

namespace folio {

// INVALID_ARGUMENT if one of `addresses`, those of `flag`, can be reached from other machines, no
// certificate encrypts what is said there, and the flag does not allow that. It resolves names of
// hosts.
absl::Status CheckPlainTcp(absl::string_view flag, const std::vector<ListenAddress>& addresses,
                           const TlsFiles& tls);

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_INSECURE_TCP_FLAG_H_
