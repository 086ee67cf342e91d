// CertificateFiles are the files with a server's certificate. An administrator may replace them
// while the server runs, as etcd allows. A server asks for their contents when a connection begins.
#ifndef FOLIO_SERVICES_RUNTIME_CERTIFICATE_FILES_H_
#define FOLIO_SERVICES_RUNTIME_CERTIFICATE_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"

namespace folio {

// Paths of PEM files. The last one is empty if clients need no certificate.
struct TlsFiles {
  std::string cert;       // the server's certificate and the chain of authorities above it
  std::string key;        // its private key
  std::string client_ca;  // authorities of the clients' certificates

  // True if there is no certificate, so that the server speaks without TLS.
  bool empty() const { return cert.empty(); }
};

// Contents of the files, as PEM.
struct Certificate {
  std::string chain;
  std::string key;
  std::string client_ca;
  uint64_t version = 1;  // counts up when the contents change
};

// INVALID_ARGUMENT names the file that cannot be read or used and says why: it is not PEM, or the
// key is not the certificate's.
absl::StatusOr<Certificate> ReadCertificate(const TlsFiles& files);

// Thread-safe.
class CertificateFiles {
 public:
  // How often it looks whether the files have changed, at most.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // Reads the files. It logs a warning of a certificate that has expired. The errors are those of
  // ReadCertificate.
  static absl::StatusOr<std::unique_ptr<CertificateFiles>> Open(const TlsFiles& files);

  // The newest contents that could be used. While the files cannot, for example because the
  // certificate has been replaced and its key has not yet, the contents before them stay in use.
  // Logs each change. It may read the files, so it is for threads that may wait for a disk.
  std::shared_ptr<const Certificate> Current();

 private:
  CertificateFiles(const TlsFiles& files, Certificate first);

  const TlsFiles files_;
  absl::Mutex mutex_;
  std::shared_ptr<const Certificate> current_ ABSL_GUARDED_BY(mutex_);
  SteadyTime checked_ ABSL_GUARDED_BY(mutex_);
  std::string refused_ ABSL_GUARDED_BY(mutex_);  // the last complaint, so that it is logged once
};

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_CERTIFICATE_FILES_H_
