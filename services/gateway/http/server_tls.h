// ServerTls is the gateway's certificate for HTTP, which may change while it runs.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_SERVER_TLS_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_SERVER_TLS_H_

#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/runtime/certificate_files.h"

namespace folio::gateway {

using TlsContext = boost::asio::ssl::context;

// Thread-safe.
class ServerTls {
 public:
  // The least version is TLS 1.2. Clients must show a certificate if there are authorities for
  // them. The errors are those of CertificateFiles::Open, and INVALID_ARGUMENT if OpenSSL refuses
  // contents.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Open(const TlsFiles& files);

  // The context of connections that begin now. It may read the files.
  std::shared_ptr<TlsContext> Current();

 private:
  ServerTls(std::unique_ptr<CertificateFiles> files, std::shared_ptr<TlsContext> first);

  const std::unique_ptr<CertificateFiles> files_;
  absl::Mutex mutex_;
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;  // of the certificate that was tried last
  std::shared_ptr<TlsContext> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_SERVER_TLS_H_
