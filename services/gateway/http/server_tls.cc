#include "services/gateway/http/server_tls.h"

#include <boost/asio/buffer.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/runtime/logging.h"

namespace folio::gateway {
namespace {

using boost::system::error_code;

absl::StatusOr<std::shared_ptr<TlsContext>> MakeContext(const Certificate& certificate) {
  auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
  const auto bytes = [](const std::string& pem) { return boost::asio::buffer(pem); };
  const auto refused = [](absl::string_view role, const error_code& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("OpenSSL cannot use the ", role, ": ", error.message()));
  };
  // With certificates of clients, OpenSSL refuses to resume a session that does not say whose it
  // is.
  constexpr unsigned char kSessions[] = "folio-gateway";
  SSL_CTX_set_session_id_context(context->native_handle(), kSessions, sizeof(kSessions));
  error_code error;
  context->set_options(TlsContext::default_workarounds | TlsContext::no_sslv2 |
                           TlsContext::no_sslv3 | TlsContext::no_tlsv1 | TlsContext::no_tlsv1_1 |
                           SSL_OP_NO_RENEGOTIATION,
                       error);
  if (context->use_certificate_chain(bytes(certificate.chain), error); error) {
    return refused("certificate", error);
  }
  if (context->use_private_key(bytes(certificate.key), TlsContext::pem, error); error) {
    return refused("key", error);
  }
  if (certificate.authorities.empty()) return context;
  if (context->add_certificate_authority(bytes(certificate.authorities), error); error) {
    return refused("authorities of clients", error);
  }
  context->set_verify_mode(
      boost::asio::ssl::verify_peer | boost::asio::ssl::verify_fail_if_no_peer_cert, error);
  return context;
}

}  // namespace

ServerTls::ServerTls(std::unique_ptr<CertificateFiles> files, std::shared_ptr<TlsContext> first)
    : files_(std::move(files)), context_(std::move(first)) {}

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Open(const TlsFiles& files) {
  auto opened = CertificateFiles::Open(files);
  if (!opened.ok()) return opened.status();
  auto context = MakeContext((*opened)->Current()->certificate);
  if (!context.ok()) return context.status();
  return std::unique_ptr<ServerTls>(new ServerTls(*std::move(opened), *std::move(context)));
}

std::shared_ptr<TlsContext> ServerTls::Current() {
  const auto now = files_->Current();
  const absl::MutexLock lock(&mutex_);
  if (now->version <= version_) return context_;
  version_ = now->version;
  auto context = MakeContext(now->certificate);
  if (context.ok()) {
    context_ = *std::move(context);
  } else {
    log::Warning("the last certificate stays in use", {{"reason", context.status()}});
  }
  return context_;
}

}  // namespace folio::gateway
