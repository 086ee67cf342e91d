// Certificate is what one side of an encrypted connection shows and believes, read from PEM files.
#ifndef FOLIO_SERVICES_TLS_CERTIFICATE_H_
#define FOLIO_SERVICES_TLS_CERTIFICATE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace folio {

// Paths of PEM files. An empty one is a file that is not used.
struct TlsFiles {
  std::string cert;         // the own certificate and the chain of authorities above it
  std::string key;          // its private key
  std::string authorities;  // one of them must have signed the other side's certificate

  // True if there is no certificate, with which a server speaks without TLS.
  bool empty() const { return cert.empty(); }
};

// Contents of the files, as PEM.
struct Certificate {
  std::string chain;
  std::string key;
  std::string authorities;
};

// Reads the files that are named, and tries them with OpenSSL as a connection would. gRPC says less
// when it cannot use them, and a server of it would then leave connections unanswered.
// INVALID_ARGUMENT names the file and says why it cannot be used: it cannot be read, is not PEM or
// is cut off, is weaker than the system allows, or the key is not the certificate's or needs a
// password. A certificate that has expired can be read. Thread-safe.
absl::StatusOr<Certificate> ReadCertificate(const TlsFiles& files);

// When the first certificate of a chain begins and ends to be valid, in seconds since 1970.
struct Validity {
  int64_t begins = 0;
  int64_t ends = 0;
};
Validity ValidityOf(const Certificate& certificate);

// True if the users of the machine who are not of the file's group may read it too.
bool IsReadByOthers(const std::string& path);

}  // namespace folio

#endif  // FOLIO_SERVICES_TLS_CERTIFICATE_H_
