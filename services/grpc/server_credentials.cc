#include "services/grpc/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <cstdint>
#include <string>
#include <utility>

namespace folio {
namespace {

// gRPC's C++ interface can watch files too (FileWatcherCertificateProvider). In gRPC 1.51 that
// serves no client while the certificate and the key do not fit together, as in the moment between
// their replacements. The C interface instead asks a function for each connection's certificate,
// and the last pair that fits stays in use.
//
// gRPC reads what came of the last answer outside the lock under which it asks. So one thread alone
// may hand connections to a server that has these credentials, as GrpcServer does, and each server
// has credentials of its own.
class ReloadedCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadedCredentials(std::shared_ptr<CertificateFiles> certificate)
      : certificate_(std::move(certificate)) {
    const auto ask = certificate_->Current()->certificate.authorities.empty()
                         ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                         : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(ask, &Fetch, this));
  }

  ~ReloadedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  // Called when a connection begins, by one thread at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto* credentials = static_cast<ReloadedCredentials*>(self);
    const auto now = credentials->certificate_->Current();
    if (now->version == credentials->version_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    credentials->version_ = now->version;
    const auto& [chain, key, authorities] = now->certificate;
    grpc_ssl_pem_key_cert_pair pair = {key.c_str(), chain.c_str()};
    // gRPC wants some authorities even if it asks for no certificate, and then does not use them.
    *config = grpc_ssl_server_certificate_config_create(
        authorities.empty() ? chain.c_str() : authorities.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  const std::shared_ptr<CertificateFiles> certificate_;
  uint64_t version_ = 0;  // of the certificate that gRPC has
  grpc_server_credentials* credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<CertificateFiles> certificate) {
  return std::make_shared<ReloadedCredentials>(std::move(certificate));
}

}  // namespace folio
