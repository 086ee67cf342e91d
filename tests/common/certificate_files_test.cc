#include "services/runtime/certificate_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "services/base/steady_time.h"
#include "tests/common/made_certificates.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using testing::Authority;
using testing::EncryptedKey;
using ::testing::HasSubstr;
using testing::MadeCertificate;
using testing::WriteText;

class CertificateFilesTest : public ::testing::Test {
 protected:
  CertificateFilesTest() { Write(first_); }

  void Write(const MadeCertificate& made) const {
    WriteText(files_.cert, made.certificate);
    WriteText(files_.key, made.key);
    WriteText(files_.authorities, authority_.pem());
  }
  std::string Refusal() const {
    const auto read = ReadCertificate(files_);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(read.status().message());
  }
  // What the files hold after the next look at them.
  static std::shared_ptr<const CertificateFiles::Contents> Later(CertificateFiles& files) {
    absl::SleepFor(CertificateFiles::kInterval + absl::Milliseconds(10));
    return files.Current();
  }

  const testing::TempDir dir_;
  const TlsFiles files_ = {dir_ / "cert.pem", dir_ / "key.pem", dir_ / "ca.pem"};
  const Authority authority_{"authority"};
  const MadeCertificate first_ = authority_.Make("DNS:localhost");
};

TEST_F(CertificateFilesTest, ReadsAChainAKeyAndAuthorities) {
  WriteText(files_.cert, first_.certificate + authority_.pem());
  const auto read = ReadCertificate(files_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->chain, first_.certificate + authority_.pem());
  EXPECT_EQ(read->key, first_.key);
  EXPECT_EQ(read->authorities, authority_.pem());
}

TEST_F(CertificateFilesTest, ReadsOneFileWithBoth) {
  WriteText(files_.cert, first_.key + first_.certificate);
  const auto read = ReadCertificate({files_.cert, files_.cert, ""});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->authorities, "");
}

TEST_F(CertificateFilesTest, NamesTheFileThatIsNotThere) {
  TlsFiles files = files_;
  files.key = dir_ / "nowhere";
  EXPECT_THAT(std::string(ReadCertificate(files).status().message()),
              AllOf(HasSubstr(files.key), HasSubstr("No such file")));
  files.key = dir_ / "";
  EXPECT_THAT(std::string(ReadCertificate(files).status().message()),
              AllOf(HasSubstr(files.key), HasSubstr("regular file")));
}

TEST_F(CertificateFilesTest, NamesTheFileThatCannotBeUsed) {
  WriteText(files_.cert, "no certificate");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(files_.cert), HasSubstr("BEGIN CERTIFICATE")));
  WriteText(files_.cert, "");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(files_.cert), HasSubstr("BEGIN CERTIFICATE")));
  WriteText(files_.cert, std::string((4 << 20) + 1, 'x'));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(files_.cert), HasSubstr("4 MiB")));
  const std::string chain = first_.certificate + authority_.pem();
  WriteText(files_.cert, chain.substr(0, chain.size() - 40));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(files_.cert), HasSubstr("cut off")));
  Write(first_);
  WriteText(files_.key, first_.certificate);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(files_.key), HasSubstr("no private key")));
  WriteText(files_.key, authority_.Make("DNS:localhost").key);
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr(files_.key), HasSubstr("not the key"), HasSubstr(files_.cert)));
  Write(first_);
  WriteText(files_.authorities, first_.key);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(files_.authorities), HasSubstr("BEGIN CERTIFICATE")));
}

TEST_F(CertificateFilesTest, AKeyWithAPasswordIsRefusedAndNotAskedFor) {
  WriteText(files_.key, EncryptedKey(first_));
  EXPECT_THAT(Refusal(), HasSubstr("password"));
}

TEST_F(CertificateFilesTest, RefusesWhatOpenSslWouldRefuseLater) {
  // Debian's OpenSSL has security level 2, which wants 2048 bits.
  Write(authority_.Make("DNS:localhost", 3600, /*rsa_bits=*/1024));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(files_.cert), HasSubstr("key too small")));
}

TEST_F(CertificateFilesTest, RefusesAPipe) {
  TlsFiles files = files_;
  files.key = dir_ / "pipe";
  ASSERT_EQ(mkfifo(files.key.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadCertificate(files).status().message()), HasSubstr("regular file"));
}

TEST_F(CertificateFilesTest, TellsAKeyThatEveryUserMayRead) {
  chmod(files_.key.c_str(), 0640);
  EXPECT_FALSE(IsReadByOthers(files_.key));
  chmod(files_.key.c_str(), 0644);
  EXPECT_TRUE(IsReadByOthers(files_.key));
}

TEST_F(CertificateFilesTest, OpensAnExpiredCertificate) {
  Write(authority_.Make("DNS:localhost", -60));
  EXPECT_TRUE(CertificateFiles::Open(files_).ok());
}

TEST_F(CertificateFilesTest, GivesWhatTheFilesHoldNow) {
  auto files = CertificateFiles::Open(files_);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto before = Later(**files);
  EXPECT_EQ(before->certificate.chain, first_.certificate);
  EXPECT_EQ(before->version, 1U);
  const MadeCertificate second = authority_.Make("DNS:localhost");
  Write(second);
  const auto after = Later(**files);
  EXPECT_EQ(after->certificate.chain, second.certificate);
  EXPECT_EQ(after->certificate.key, second.key);
  EXPECT_EQ(after->version, 2U);
  EXPECT_EQ(before->certificate.chain, first_.certificate) << "a connection that holds it keeps it";
  EXPECT_EQ((*files)->Current(), after);
}

TEST_F(CertificateFilesTest, KeepsTheLastPairUntilTheNextIsWhole) {
  auto files = CertificateFiles::Open(files_);
  ASSERT_TRUE(files.ok()) << files.status();
  const MadeCertificate second = authority_.Make("DNS:localhost");
  WriteText(files_.cert, second.certificate);  // and its key is not there yet
  EXPECT_EQ(Later(**files)->certificate.chain, first_.certificate);
  WriteText(files_.key, second.key);
  EXPECT_EQ(Later(**files)->certificate.chain, second.certificate);
}

TEST_F(CertificateFilesTest, LooksAtMostOnceASecond) {
  auto files = CertificateFiles::Open(files_);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto first = Later(**files);
  const SteadyTime looked = SteadyNow();
  Write(authority_.Make("DNS:localhost"));
  const auto again = (*files)->Current();
  // On a machine that stood still in between, the files may be read again.
  if (SteadyNow() < looked + CertificateFiles::kInterval) {
    EXPECT_EQ(again, first);
  }
}

}  // namespace
}  // namespace folio
