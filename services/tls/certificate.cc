#include "services/tls/certificate.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace folio {
namespace {

struct FreeOpenSsl {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Bio = std::unique_ptr<BIO, FreeOpenSsl>;
using X509Certificate = std::unique_ptr<X509, FreeOpenSsl>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeOpenSsl>;
using Context = std::unique_ptr<SSL_CTX, FreeOpenSsl>;

// A bundle of all public authorities has 250 KB.
constexpr size_t kMostBytes = 4 << 20;

absl::Status CannotUse(const std::string& file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the file \"", file, "\" ", why));
}

// Takes OpenSSL's reason, and leaves none behind for others to find.
absl::Status Refused(const std::string& file, absl::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return CannotUse(file, absl::StrCat("has ", what, " that OpenSSL refuses: ",
                                      reason == nullptr ? "it does not say why" : reason));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return CannotUse(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  // A pipe would keep its reader waiting, and could not be read again.
  if (!S_ISREG(info.st_mode)) return CannotUse(path, "cannot be read: it is not a regular file");
  if (static_cast<size_t>(info.st_size) > kMostBytes) {
    return CannotUse(path, "is larger than 4 MiB, so it is not PEM");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  if (!file.is_open() || !file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return CannotUse(path, absl::StrCat("cannot be read: ",
                                        errno == 0 ? "it has changed" : std::strerror(errno)));
  }
  return text;
}

Bio Memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A key with a password is refused. Otherwise OpenSSL would ask for it at the terminal.
int NoPassword(char* /*into*/, int /*size*/, int /*writing*/, void* /*unused*/) { return -1; }

// All certificates of a file, in their order.
absl::StatusOr<std::vector<X509Certificate>> ParseChain(const std::string& path,
                                                        const std::string& pem) {
  ERR_clear_error();
  const Bio bio = Memory(pem);
  std::vector<X509Certificate> chain;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, &NoPassword, nullptr)) {
    chain.emplace_back(next);
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (chain.empty()) return CannotUse(path, "has no certificate as PEM (BEGIN CERTIFICATE)");
  if (!ended) {
    return CannotUse(path, absl::StrCat("has a certificate after the first ", chain.size(),
                                        " that cannot be read; it may be cut off"));
  }
  return chain;
}

absl::Status TryPair(const TlsFiles& files, const Certificate& read, SSL_CTX* context) {
  auto chain = ParseChain(files.cert, read.chain);
  if (!chain.ok()) return chain.status();
  const PrivateKey key(
      PEM_read_bio_PrivateKey(Memory(read.key).get(), nullptr, &NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return CannotUse(files.key, "has no private key as PEM, or it needs a password");
  }
  const bool fits = X509_check_private_key(chain->front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return CannotUse(files.key,
                     absl::StrCat("is not the key of the certificate in \"", files.cert, "\""));
  }
  // Here OpenSSL applies the least strength that the system demands.
  if (SSL_CTX_use_certificate(context, chain->front().get()) != 1) {
    return Refused(files.cert, "a certificate");
  }
  for (size_t i = 1; i < chain->size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, (*chain)[i].get()) != 1) {
      return Refused(files.cert, "an authority in its chain");
    }
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) return Refused(files.key, "a key");
  return absl::OkStatus();
}

absl::Status TryAuthorities(const TlsFiles& files, const Certificate& read, SSL_CTX* context) {
  auto authorities = ParseChain(files.authorities, read.authorities);
  if (!authorities.ok()) return authorities.status();
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  for (const X509Certificate& authority : *authorities) {
    if (X509_STORE_add_cert(store, authority.get()) != 1) {
      return Refused(files.authorities, "an authority");
    }
  }
  return absl::OkStatus();
}

int64_t Seconds(const ASN1_TIME* time) {
  tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

}  // namespace

absl::StatusOr<Certificate> ReadCertificate(const TlsFiles& files) {
  Certificate read;
  for (const auto& [path, text] :
       {std::pair{&files.cert, &read.chain}, std::pair{&files.key, &read.key},
        std::pair{&files.authorities, &read.authorities}}) {
    if (path->empty()) continue;
    auto pem = ReadFile(*path);
    if (!pem.ok()) return pem.status();
    *text = *std::move(pem);
  }
  const Context context(SSL_CTX_new(TLS_method()));
  if (context == nullptr) return absl::InternalError("OpenSSL has no memory for a context");
  if (!files.cert.empty()) {
    if (absl::Status s = TryPair(files, read, context.get()); !s.ok()) return s;
  }
  if (!files.authorities.empty()) {
    if (absl::Status s = TryAuthorities(files, read, context.get()); !s.ok()) return s;
  }
  return read;
}

Validity ValidityOf(const Certificate& certificate) {
  const X509Certificate first(
      PEM_read_bio_X509(Memory(certificate.chain).get(), nullptr, &NoPassword, nullptr));
  ERR_clear_error();
  if (first == nullptr) return {};
  return {Seconds(X509_get0_notBefore(first.get())), Seconds(X509_get0_notAfter(first.get()))};
}

bool IsReadByOthers(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & S_IROTH) != 0;
}

}  // namespace folio
