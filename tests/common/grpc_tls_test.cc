// GrpcServer with a certificate, and the C++ SDK's connections to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "folio/v1/admin.grpc.pb.h"
#include "services/client/admin_client.h"
#include "services/grpc/grpc_server.h"
#include "tests/common/made_certificates.h"
#include "tests/common/sockets.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using client::AdminClient;
using client::ConnectOptions;
using client::TlsOptions;
using testing::Authority;
using testing::ConnectTcp;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::IsClosed;
using testing::MadeCertificate;
using testing::WriteText;

constexpr char kNames[] = "DNS:localhost,IP:127.0.0.1,DNS:folio.example";

class GrpcTlsTest : public ::testing::Test {
 protected:
  GrpcTlsTest() {
    WriteText(ca_, authority_.pem());
    WriteText(other_ca_, other_.pem());
    Write(files_.cert, files_.key, authority_.Make(kNames));
  }

  static void Write(const std::string& cert, const std::string& key, const MadeCertificate& made) {
    WriteText(cert, made.certificate);
    WriteText(key, made.key);
  }

  // With a Unix socket and a port.
  void Start(const TlsFiles& files) {
    auto certificate = CertificateFiles::Open(files);
    ASSERT_TRUE(certificate.ok()) << certificate.status();
    GrpcServerOptions options;
    options.listen = {*ParseListenAddress("unix:" + (dir_ / "s")),
                      *ParseListenAddress("127.0.0.1:0")};
    options.services = {&service_};
    options.timeouts.handshake = handshake_;
    options.certificate = *std::move(certificate);
    auto server = GrpcServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string Unix() const { return server_->addresses()[0].ToString(); }
  std::string Tcp() const { return server_->addresses()[1].ToString(); }

  // The status of a call. UNIMPLEMENTED is the service's answer, as it has no implementation.
  static absl::Status Ask(const std::string& address, const std::optional<TlsOptions>& tls) {
    ConnectOptions options;
    options.tls = tls;
    auto client = AdminClient::Connect(address, options);
    if (!client.ok()) return client.status();
    return (*client)->ListPools().status();
  }
  static bool Reaches(const std::string& address, const std::optional<TlsOptions>& tls) {
    return absl::IsUnimplemented(Ask(address, tls));
  }
  std::string Refusal(const std::optional<TlsOptions>& tls) const {
    const absl::Status status = Ask(Tcp(), tls);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    return std::string(status.message());
  }

  const testing::TempDir dir_;
  const TlsFiles files_ = {dir_ / "cert.pem", dir_ / "key.pem", ""};
  const std::string ca_ = dir_ / "ca.pem", other_ca_ = dir_ / "other.pem";
  const std::string cert_ = dir_ / "client.pem", key_ = dir_ / "client_key.pem";
  const Authority authority_{"authority"}, other_{"another"};
  absl::Duration handshake_ = ConnectionTimeouts().handshake;
  v1::Admin::Service service_;
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcTlsTest, EncryptsTcpAndLeavesUnixSocketsPlain) {
  Start(files_);
  const TlsOptions tls = {.ca_file = ca_};
  EXPECT_TRUE(Reaches(Tcp(), tls));
  EXPECT_TRUE(Reaches(Unix(), std::nullopt));
  EXPECT_TRUE(Reaches(Unix(), tls)) << "the options are for TCP";
  EXPECT_THAT(Refusal(std::nullopt), HasSubstr("connect with TLS"));
}

TEST_F(GrpcTlsTest, AServerWithoutACertificateIsSaidToHaveNone) {
  GrpcServerOptions options;
  options.listen = {*ParseListenAddress("127.0.0.1:0")};
  options.services = {&service_};
  auto server = GrpcServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::Status status = Ask((*server)->addresses()[0].ToString(), TlsOptions{.ca_file = ca_});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("connect without TLS"));
}

TEST_F(GrpcTlsTest, AClientTrustsItsAuthoritiesAlone) {
  Start(files_);
  EXPECT_THAT(Refusal(TlsOptions{.ca_file = other_ca_}), HasSubstr("certificate verify failed"));
}

TEST_F(GrpcTlsTest, AClientWantsTheNameOfTheAddressOrTheOneThatItGives) {
  Write(files_.cert, files_.key, authority_.Make("DNS:folio.example"));
  Start(files_);
  EXPECT_THAT(Refusal(TlsOptions{.ca_file = ca_}), HasSubstr("Hostname Verification"));
  EXPECT_TRUE(Reaches(Tcp(), TlsOptions{.ca_file = ca_, .server_name = "folio.example"}));
  EXPECT_THAT(Refusal(TlsOptions{.ca_file = ca_, .server_name = "other.example"}),
              HasSubstr("Hostname Verification"));
}

TEST_F(GrpcTlsTest, AClientRefusesAnExpiredCertificate) {
  Write(files_.cert, files_.key, authority_.Make(kNames, -60));
  Start(files_);
  EXPECT_THAT(Refusal(TlsOptions{.ca_file = ca_}), HasSubstr("certificate verify failed"));
}

TEST_F(GrpcTlsTest, AServerWithAuthoritiesWantsACertificate) {
  TlsFiles files = files_;
  files.authorities = ca_;
  Start(files);
  EXPECT_THAT(Refusal(TlsOptions{.ca_file = ca_}), HasSubstr("ask for a certificate"));
  Write(cert_, key_, other_.Make("DNS:client"));
  const TlsOptions own = {.ca_file = ca_, .cert_file = cert_, .key_file = key_};
  Refusal(own);
  // Another pair of files, as gRPC looks at the same ones once in five seconds.
  const std::string expired = dir_ / "expired.pem", expired_key = dir_ / "expired_key.pem";
  Write(expired, expired_key, authority_.Make("DNS:client", -60));
  Refusal(TlsOptions{.ca_file = ca_, .cert_file = expired, .key_file = expired_key});
  const std::string good = dir_ / "good.pem", good_key = dir_ / "good_key.pem";
  Write(good, good_key, authority_.Make("DNS:client"));
  EXPECT_TRUE(Reaches(Tcp(), TlsOptions{.ca_file = ca_, .cert_file = good, .key_file = good_key}));
  EXPECT_TRUE(Reaches(Unix(), std::nullopt));
}

TEST_F(GrpcTlsTest, NewConnectionsGetTheCertificateThatIsInTheFilesNow) {
  Start(files_);
  ConnectOptions options;
  options.tls = TlsOptions{.ca_file = ca_};
  auto early = AdminClient::Connect(Tcp(), options);
  ASSERT_TRUE(early.ok()) << early.status();
  Write(files_.cert, files_.key, other_.Make(kNames));
  const TlsOptions other = {.ca_file = other_ca_};
  EXPECT_TRUE(Eventually([&] { return Reaches(Tcp(), other); }));
  Refusal(TlsOptions{.ca_file = ca_});
  EXPECT_TRUE(absl::IsUnimplemented((*early)->ListPools().status())) << "it is connected already";
}

TEST_F(GrpcTlsTest, AConnectionThatSaysNothingIsClosed) {
  handshake_ = absl::Milliseconds(200);
  Start(files_);
  const UniqueFd mute = ConnectTcp("127.0.0.1", server_->addresses()[1].port);
  EXPECT_TRUE(Eventually([&] { return IsClosed(mute); }));
}

// Long before the time for the handshake is over.
TEST_F(GrpcTlsTest, AConnectionThatDoesNotEncryptIsClosed) {
  handshake_ = absl::Minutes(10);
  Start(files_);
  const UniqueFd plain = ConnectTcp("127.0.0.1", server_->addresses()[1].port);
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  EXPECT_EQ(send(plain.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  EXPECT_TRUE(Eventually([&] { return IsClosed(plain); }));
  EXPECT_TRUE(Reaches(Tcp(), TlsOptions{.ca_file = ca_}));
}

TEST_F(GrpcTlsTest, PlainTcpWhereOtherMachinesReachItIsRefused) {
  GrpcServerOptions options;
  options.listen = {*ParseListenAddress("0.0.0.0:0")};
  options.services = {&service_};
  const absl::Status refused = GrpcServer::Start(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("0.0.0.0:"), HasSubstr("--insecure_tcp")));
  options.insecure_tcp = true;
  EXPECT_TRUE(GrpcServer::Start(options).ok());
  options.insecure_tcp = false;
  auto certificate = CertificateFiles::Open(files_);
  ASSERT_TRUE(certificate.ok()) << certificate.status();
  options.certificate = *std::move(certificate);
  EXPECT_TRUE(GrpcServer::Start(options).ok());
}

TEST_F(GrpcTlsTest, AClientNamesTheFileThatItCannotUse) {
  Start(files_);
  const std::string text = dir_ / "text";
  WriteText(text, "text");
  const struct {
    TlsOptions tls;
    std::vector<std::string> parts;
  } cases[] = {
      {{.ca_file = dir_ / "nowhere"}, {"nowhere", "No such file"}},
      {{.ca_file = text}, {text, "no certificate as PEM"}},
      {{.ca_file = files_.key}, {files_.key, "no certificate as PEM"}},
      {{.ca_file = ca_, .cert_file = ca_}, {"together"}},
      {{.ca_file = ca_, .key_file = files_.key}, {"together"}},
      {{.ca_file = ca_, .cert_file = text, .key_file = files_.key},
       {text, "no certificate as PEM"}},
      {{.ca_file = ca_, .cert_file = files_.cert, .key_file = text}, {text, "no private key"}},
  };
  for (const auto& one : cases) {
    const absl::Status status = Ask(Tcp(), one.tls);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const std::string& part : one.parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
}

}  // namespace
}  // namespace folio
