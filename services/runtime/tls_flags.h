// This header reads the flags of a server's certificate, which every daemon has.
#ifndef FOLIO_SERVICES_RUNTIME_TLS_FLAGS_H_
#define FOLIO_SERVICES_RUNTIME_TLS_FLAGS_H_

#include "absl/status/statusor.h"
#include "services/tls/certificate.h"

namespace folio {

// Without files if no flag is given. INVALID_ARGUMENT names the flag that another one needs. The
// files themselves are not read.
absl::StatusOr<TlsFiles> ReadTlsFlags();

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_TLS_FLAGS_H_
