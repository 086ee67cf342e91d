#include "services/client/channel_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "services/tls/certificate.h"

namespace folio::client {
namespace {

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

// How often gRPC looks whether files have changed.
constexpr unsigned int kRefreshSeconds = 5;

absl::Status CheckFiles(const TlsOptions& tls) {
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError(
        "TLS: a client's certificate and its key are needed together; give both files or neither");
  }
  // gRPC would wait for a file that it cannot use, and say so in its log alone.
  absl::Status read = ReadCertificate({tls.cert_file, tls.key_file, tls.ca_file}).status();
  if (read.ok()) return read;
  return absl::InvalidArgumentError(absl::StrCat("TLS: ", read.message()));
}

Credentials MakeTls(const TlsOptions& tls) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (!tls.ca_file.empty() || !tls.cert_file.empty()) {
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
            tls.key_file, tls.cert_file, tls.ca_file, kRefreshSeconds));
  }
  // Otherwise gRPC takes the system's authorities.
  if (!tls.ca_file.empty()) options.watch_root_certs();
  if (!tls.cert_file.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

// A gateway has several connections to each of its workers.
class SharedCredentials {
 public:
  Credentials Find(const TlsOptions& tls) {
    const absl::MutexLock lock(&mutex_);
    std::weak_ptr<grpc::ChannelCredentials>& known =
        by_files_[{tls.ca_file, tls.cert_file, tls.key_file}];
    Credentials found = known.lock();
    if (found == nullptr) known = found = MakeTls(tls);
    return found;
  }

 private:
  using Files = std::tuple<std::string, std::string, std::string>;
  absl::Mutex mutex_;
  std::map<Files, std::weak_ptr<grpc::ChannelCredentials>> by_files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

TlsUse UseOfTls(absl::string_view address, const std::optional<TlsOptions>& tls) {
  if (absl::StartsWith(address, "unix:")) return TlsUse::kUnixSocket;
  if (!tls.has_value()) return TlsUse::kPlain;
  return tls->cert_file.empty() ? TlsUse::kEncrypted : TlsUse::kWithCertificate;
}

absl::string_view TlsHint(TlsUse use, absl::string_view why) {
  const bool encrypts = use == TlsUse::kEncrypted || use == TlsUse::kWithCertificate;
  if (encrypts && absl::StrContains(why, "wrong version number")) {
    return "; the server seems to have no certificate, so connect without TLS";
  }
  // A connection that had come about would end with these words alone.
  if (!absl::StrContains(why, "failed to connect") || !absl::StrContains(why, "Socket closed")) {
    return "";
  }
  if (use == TlsUse::kPlain) return "; the server may have a certificate, so connect with TLS";
  if (use == TlsUse::kEncrypted) return "; the server may ask for a certificate of the client";
  return "";
}

absl::StatusOr<Credentials> MakeChannelCredentials(absl::string_view address,
                                                   const std::optional<TlsOptions>& tls,
                                                   grpc::ChannelArguments* arguments) {
  const TlsUse use = UseOfTls(address, tls);
  if (use == TlsUse::kUnixSocket || use == TlsUse::kPlain) {
    return grpc::InsecureChannelCredentials();
  }
  if (absl::Status status = CheckFiles(*tls); !status.ok()) return status;
  if (!tls->server_name.empty()) arguments->SetSslTargetNameOverride(tls->server_name);
  static auto* const shared = new SharedCredentials();  // never destroyed, as threads may use it
  return shared->Find(*tls);
}

}  // namespace folio::client
