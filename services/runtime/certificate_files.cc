#include "services/runtime/certificate_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/runtime/logging.h"

namespace folio {
namespace {

struct FreeOpenSsl {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, FreeOpenSsl>;
using X509Certificate = std::unique_ptr<X509, FreeOpenSsl>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeOpenSsl>;

// A chain has some 10 KB. An administrator who names a disk by mistake hears of it at once.
constexpr size_t kMostBytes = 1 << 20;

absl::Status CannotUse(const std::string& file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the file \"", file, "\" ", why));
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  if (!file.is_open() ||
      !(file.read(text.data(), static_cast<std::streamsize>(text.size())) || file.eof())) {
    return CannotUse(path, absl::StrCat("cannot be read: ",
                                        errno == 0 ? "it is a folder" : std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) return CannotUse(path, "is larger than 1 MiB, so it is not PEM");
  return text;
}

Bio Memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A key with a password is refused. Otherwise OpenSSL would ask for it at the terminal.
int NoPassword(char* /*into*/, int /*size*/, int /*writing*/, void* /*unused*/) { return -1; }

// Null if there is none. Certificates that follow the first are its chain.
X509Certificate FirstCertificate(const std::string& pem) {
  return X509Certificate(PEM_read_bio_X509(Memory(pem).get(), nullptr, &NoPassword, nullptr));
}

// OK if all certificates of the file can be read, and there is one.
absl::Status CheckCertificates(const std::string& path, const std::string& pem) {
  const Bio bio = Memory(pem);
  int count = 0;
  while (X509Certificate(PEM_read_bio_X509(bio.get(), nullptr, &NoPassword, nullptr)) != nullptr) {
    ++count;
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (count == 0) return CannotUse(path, "has no certificate as PEM (BEGIN CERTIFICATE)");
  if (!ended) {
    return CannotUse(path, absl::StrCat("has a certificate after the first ", count,
                                        " that cannot be read; it may be cut off"));
  }
  return absl::OkStatus();
}

absl::Time ExpiryOf(const X509* certificate) {
  tm ends = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &ends) != 1) return absl::InfiniteFuture();
  return absl::FromTM(ends, absl::UTCTimeZone());
}

void LogExpiry(absl::string_view message, const TlsFiles& files, const Certificate& read) {
  const X509Certificate certificate = FirstCertificate(read.chain);
  const absl::Time ends = ExpiryOf(certificate.get());
  const std::string when = absl::FormatTime(absl::RFC3339_sec, ends, absl::UTCTimeZone());
  log::Info(message, {{"certificate", files.cert}, {"expires", when}});
  if (ends > absl::Now()) return;
  log::Warning("the certificate has expired, so clients refuse it",
               {{"certificate", files.cert},
                {"expired", when},
                {"fix", "replace the files; no restart is needed"}});
}

bool SameContents(const Certificate& a, const Certificate& b) {
  return a.chain == b.chain && a.key == b.key && a.client_ca == b.client_ca;
}

}  // namespace

absl::StatusOr<Certificate> ReadCertificate(const TlsFiles& files) {
  Certificate read;
  for (const auto& [path, text] :
       {std::pair{&files.cert, &read.chain}, std::pair{&files.key, &read.key},
        std::pair{&files.client_ca, &read.client_ca}}) {
    if (path->empty()) continue;
    auto pem = ReadPem(*path);
    if (!pem.ok()) return pem.status();
    *text = *std::move(pem);
  }
  if (absl::Status s = CheckCertificates(files.cert, read.chain); !s.ok()) return s;
  if (!files.client_ca.empty()) {
    if (absl::Status s = CheckCertificates(files.client_ca, read.client_ca); !s.ok()) return s;
  }
  const PrivateKey key(
      PEM_read_bio_PrivateKey(Memory(read.key).get(), nullptr, &NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return CannotUse(files.key, "has no private key as PEM, or it needs a password");
  }
  const bool fits = X509_check_private_key(FirstCertificate(read.chain).get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return CannotUse(files.key,
                     absl::StrCat("is not the key of the certificate in \"", files.cert, "\""));
  }
  return read;
}

CertificateFiles::CertificateFiles(const TlsFiles& files, Certificate first)
    : files_(files),
      current_(std::make_shared<const Certificate>(std::move(first))),
      checked_(SteadyNow()) {}

absl::StatusOr<std::unique_ptr<CertificateFiles>> CertificateFiles::Open(const TlsFiles& files) {
  auto first = ReadCertificate(files);
  if (!first.ok()) return first.status();
  LogExpiry("connections by TCP are encrypted", files, *first);
  return std::unique_ptr<CertificateFiles>(new CertificateFiles(files, *std::move(first)));
}

std::shared_ptr<const Certificate> CertificateFiles::Current() {
  const absl::MutexLock lock(&mutex_);
  const SteadyTime now = SteadyNow();
  if (now < checked_ + kInterval) return current_;
  checked_ = now;
  // They are small, and reading them tells more than their times: a copy may keep the time.
  auto read = ReadCertificate(files_);
  if (!read.ok()) {
    const std::string complaint(read.status().message());
    if (complaint != refused_) {
      log::Warning(
          "the files of the certificate have changed and cannot be used, so the last "
          "certificate stays in use",
          {{"reason", complaint}});
    }
    refused_ = complaint;
    return current_;
  }
  refused_.clear();
  if (SameContents(*read, *current_)) return current_;
  read->version = current_->version + 1;
  LogExpiry("new connections get the certificate that is in the files now", files_, *read);
  current_ = std::make_shared<const Certificate>(*std::move(read));
  return current_;
}

}  // namespace folio
