// This header reads the flags of a server's certificate, which every daemon has.
#ifndef FOLIO_SERVICES_RUNTIME_TLS_FLAGS_H_
#define FOLIO_SERVICES_RUNTIME_TLS_FLAGS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/tls/certificate.h"

namespace folio {

// Without files if no flag is given. INVALID_ARGUMENT names the flag that another one needs. The
// files themselves are not read.
absl::StatusOr<TlsFiles> ReadTlsFlags();

// OK if both flags of a pair are given or neither. `prefix` stands before "tls_cert" and "tls_key".
// INVALID_ARGUMENT names the one that is not.
absl::Status CheckTlsPair(absl::string_view prefix, const std::string& cert,
                          const std::string& key);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_TLS_FLAGS_H_
