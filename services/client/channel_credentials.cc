#include "services/client/channel_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace folio::client {
namespace {

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

// How often gRPC looks whether files have changed.
constexpr unsigned int kRefreshSeconds = 5;

// gRPC would wait for a file that is not there, and say so in its log alone.
absl::Status CheckPem(absl::string_view role, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    const char* why = errno == 0 ? "it does not hold text" : std::strerror(errno);
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: the file \"", path, "\" with the ", role, " cannot be read: ", why));
  }
  if (absl::StrContains(text.str(), "-----BEGIN")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TLS: the file \"", path, "\" with the ", role, " is not PEM"));
}

absl::Status CheckFiles(const TlsOptions& tls) {
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError(
        "TLS: a client's certificate and its key are needed together; give both files or neither");
  }
  absl::Status status = CheckPem("authorities", tls.ca_file);
  status.Update(CheckPem("client's certificate", tls.cert_file));
  status.Update(CheckPem("client's key", tls.key_file));
  return status;
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

absl::StatusOr<Credentials> MakeChannelCredentials(absl::string_view address,
                                                   const std::optional<TlsOptions>& tls,
                                                   grpc::ChannelArguments* arguments) {
  if (!tls.has_value() || absl::StartsWith(address, "unix:")) {
    return grpc::InsecureChannelCredentials();
  }
  if (absl::Status status = CheckFiles(*tls); !status.ok()) return status;
  if (!tls->server_name.empty()) arguments->SetSslTargetNameOverride(tls->server_name);
  static auto* const shared = new SharedCredentials();  // never destroyed, as threads may use it
  return shared->Find(*tls);
}

}  // namespace folio::client
