#include "services/runtime/tls_flags.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "services/runtime/flags.h"

ABSL_FLAG(
    std::string, tls_cert, "",
    "a file with the server's certificate and its chain, as PEM. Empty: no encryption. With it "
    "gRPC encrypts TCP alone, and HTTP every address of --listen. The file is read again when "
    "it changes, as are the next two, for connections that begin then");
ABSL_FLAG(std::string, tls_key, "", "a file with the certificate's private key, as PEM");
ABSL_FLAG(std::string, tls_client_ca, "",
          "a file with authorities, as PEM; clients must then show a certificate of one of them");

namespace folio {

absl::Status CheckTlsPair(absl::string_view prefix, const std::string& cert,
                          const std::string& key) {
  if (cert.empty() == key.empty()) return absl::OkStatus();
  return BadFlag(absl::StrCat(prefix, cert.empty() ? "tls_cert" : "tls_key"), "",
                 absl::StrCat("is required, because --", prefix, "tls_cert and --", prefix,
                              "tls_key are of use together alone"));
}

absl::StatusOr<TlsFiles> ReadTlsFlags() {
  TlsFiles files;
  files.cert = absl::GetFlag(FLAGS_tls_cert);
  files.key = absl::GetFlag(FLAGS_tls_key);
  files.authorities = absl::GetFlag(FLAGS_tls_client_ca);
  if (absl::Status s = CheckTlsPair("", files.cert, files.key); !s.ok()) return s;
  if (files.cert.empty() && !files.authorities.empty()) {
    return BadFlag("tls_client_ca", files.authorities, "needs --tls_cert and --tls_key");
  }
  return files;
}

}  // namespace folio
