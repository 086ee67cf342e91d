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
#include "services/tls/certificate.h"

namespace folio {

// Thread-safe.
class CertificateFiles {
 public:
  // How often it looks whether the files have changed, at most.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  struct Contents {
    Certificate certificate;
    uint64_t version = 1;  // counts up when the contents change
  };

  // Reads the files. It logs when the certificate ends, and warns of one that has ended and of a
  // key that every user may read. The errors are those of ReadCertificate.
  static absl::StatusOr<std::unique_ptr<CertificateFiles>> Open(const TlsFiles& files);

  // The newest contents that could be used. While the files cannot, for example because the
  // certificate has been replaced and its key has not yet, the contents before them stay in use.
  // Logs each change. It may read the files, so it is for threads that may wait for a disk.
  std::shared_ptr<const Contents> Current();

 private:
  CertificateFiles(const TlsFiles& files, Certificate first);

  const TlsFiles files_;
  absl::Mutex mutex_;
  std::shared_ptr<const Contents> current_ ABSL_GUARDED_BY(mutex_);
  SteadyTime checked_ ABSL_GUARDED_BY(mutex_);
  std::string refused_ ABSL_GUARDED_BY(mutex_);  // the last complaint, so that it is logged once
};

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_CERTIFICATE_FILES_H_
