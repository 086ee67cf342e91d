#include "services/runtime/certificate_files.h"

#include <utility>

#include "services/runtime/logging.h"

namespace folio {
namespace {

std::string Text(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

void LogValidity(absl::string_view message, const TlsFiles& files, const Certificate& read) {
  const Validity validity = ValidityOf(read);
  const absl::Time begins = absl::FromUnixSeconds(validity.begins);
  const absl::Time ends = absl::FromUnixSeconds(validity.ends);
  log::Info(message, {{"certificate", files.cert}, {"expires", Text(ends)}});
  constexpr absl::string_view kFix = "replace the files; no restart is needed";
  if (ends < absl::Now()) {
    log::Warning("the certificate has expired, so clients refuse it",
                 {{"certificate", files.cert}, {"expired", Text(ends)}, {"fix", kFix}});
  } else if (begins > absl::Now()) {
    log::Warning("the certificate is not valid yet, so clients refuse it",
                 {{"certificate", files.cert}, {"begins", Text(begins)}, {"fix", kFix}});
  }
  if (IsReadByOthers(files.key)) {
    log::Warning("every user of this machine may read the key of the certificate",
                 {{"key", files.key}, {"fix", "take that right away (chmod o-r)"}});
  }
}

bool SameContents(const Certificate& a, const Certificate& b) {
  return a.chain == b.chain && a.key == b.key && a.authorities == b.authorities;
}

}  // namespace

CertificateFiles::CertificateFiles(const TlsFiles& files, Certificate first)
    : files_(files),
      current_(std::make_shared<const Contents>(Contents{std::move(first)})),
      checked_(SteadyNow()) {}

absl::StatusOr<std::unique_ptr<CertificateFiles>> CertificateFiles::Open(const TlsFiles& files) {
  auto first = ReadCertificate(files);
  if (!first.ok()) return first.status();
  LogValidity("connections are encrypted with a certificate", files, *first);
  return std::unique_ptr<CertificateFiles>(new CertificateFiles(files, *std::move(first)));
}

std::shared_ptr<const CertificateFiles::Contents> CertificateFiles::Current() {
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
          "the files of the certificate have changed and cannot be used, so the last certificate "
          "stays in use",
          {{"reason", complaint}});
    }
    refused_ = complaint;
    return current_;
  }
  refused_.clear();
  if (SameContents(*read, current_->certificate)) return current_;
  LogValidity("new connections get the certificate that is in the files now", files_, *read);
  current_ = std::make_shared<const Contents>(Contents{*std::move(read), current_->version + 1});
  return current_;
}

}  // namespace folio
