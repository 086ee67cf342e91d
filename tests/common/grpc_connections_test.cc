// Connections that are silent or too many, with clients that write HTTP/2 by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/v1/admin.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "services/grpc/grpc_server.h"
#include "tests/common/sockets.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using testing::ConnectTo;
using testing::Eventually;
using testing::IsClosed;
using testing::NoFreeDescriptor;
using testing::UnixStream;

enum FrameType : uint8_t { kHeaders = 1, kSettings = 4, kPing = 6, kGoAway = 7 };
constexpr uint16_t kMaxConcurrentStreams = 3;  // the number of the setting

struct Frame {
  uint8_t type = 0;
  std::string payload;
};

// A client that speaks as much HTTP/2 as a test lets it.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : socket_(UnixStream()) {
    EXPECT_TRUE(ConnectTo(socket_, path));
  }

  // The preface and empty settings, which a server waits for.
  void SayHello() {
    const std::string hello =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9);
    Send(hello);
  }

  // Begins a call that waits for its request.
  void Call(const std::string& method) {
    // Without indexing and compression: a flag, a name and a value, each after its length.
    std::string headers;
    const auto add = [&headers](const std::string& name, const std::string& value) {
      headers += '\0';
      for (const std::string& text : {name, value})
        headers += static_cast<char>(text.size()) + text;
    };
    add(":method", "POST");
    add(":scheme", "http");
    add(":path", method);
    add(":authority", "test");
    add("content-type", "application/grpc");
    add("te", "trailers");
    constexpr char kEndOfHeaders = 4, kFirstStream = 1;
    const std::string head = {
        0, 0, static_cast<char>(headers.size()), kHeaders, kEndOfHeaders, 0, 0, 0, kFirstStream};
    Send(head + headers);
  }

  // The next frame of this type. Nothing if the server closes before it, or takes too long.
  std::optional<Frame> Next(FrameType type) {
    for (;;) {
      const std::optional<std::string> head = Read(9);
      if (!head) return std::nullopt;
      const auto byte = [&](size_t i) { return static_cast<uint8_t>((*head)[i]); };
      const std::optional<std::string> payload =
          Read(static_cast<size_t>(byte(0)) << 16 | byte(1) << 8 | byte(2));
      if (!payload) return std::nullopt;
      if (byte(3) == type) return Frame{byte(3), *payload};
    }
  }

  const UniqueFd& socket() const { return socket_; }

 private:
  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::optional<std::string> Read(size_t bytes) {
    std::string read(bytes, '\0');
    for (size_t done = 0; done < bytes;) {
      pollfd waiting = {socket_.get(), POLLIN, 0};
      if (poll(&waiting, 1, 30000) != 1) return std::nullopt;
      const ssize_t got = recv(socket_.get(), read.data() + done, bytes - done, 0);
      if (got <= 0) return std::nullopt;
      done += static_cast<size_t>(got);
    }
    return read;
  }

  UniqueFd socket_;
};

class GrpcConnectionsTest : public ::testing::Test {
 protected:
  void Start(const ConnectionTimeouts& timeouts, ConnectionLimit* limit = nullptr) {
    GrpcServerOptions options;
    options.listen = {*ParseListenAddress("unix:" + path_)};
    options.services = {&service_};
    options.timeouts = timeouts;
    options.connections = limit;
    auto started = GrpcServer::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  // Over a connection of its own. The service has no implementation, so a call that arrives is
  // UNIMPLEMENTED.
  bool Answers() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::Admin::NewStub(
        grpc::CreateCustomChannel("unix:" + path_, grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
    v1::ListPoolsResponse response;
    return stub->ListPools(&context, {}, &response).error_code() == grpc::StatusCode::UNIMPLEMENTED;
  }

  const testing::TempDir directory_;
  const std::string path_ = directory_ / "s";
  v1::Admin::Service service_;
  std::optional<ConnectionLimit> limit_;  // outlives the server, whose threads use it
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcConnectionsTest, AServerThatRanOutOfDescriptorsAnswersAgain) {
  ConnectionLimit& limit = limit_.emplace(100);
  Start({}, &limit);
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(UnixStream());
  {
    const NoFreeDescriptor none;
    for (const UniqueFd& client : clients) ASSERT_TRUE(ConnectTo(client, path_));
    EXPECT_TRUE(Eventually([&] { return limit.counts().accept_failures > 0; }));
  }
  clients.clear();
  EXPECT_TRUE(Answers());
  EXPECT_TRUE(Eventually([&] { return limit.counts().open == 0; })) << limit.counts().open;
}

TEST_F(GrpcConnectionsTest, CountsConnectionsThatGrpcHas) {
  ConnectionLimit& limit = limit_.emplace(3);
  Start({}, &limit);
  {
    std::vector<RawClient> clients;
    for (int i = 0; i < 3; ++i) clients.emplace_back(path_);
    EXPECT_TRUE(Eventually([&] { return limit.counts().open == 3; })) << limit.counts().open;
    const RawClient fourth(path_);
    EXPECT_TRUE(Eventually([&] { return IsClosed(fourth.socket()); }));
    EXPECT_EQ(limit.counts().refused, 1U);
  }
  EXPECT_TRUE(Answers());
}

TEST_F(GrpcConnectionsTest, AConnectionThatSaysNothingIsClosed) {
  Start({.handshake = absl::Milliseconds(100)});
  const RawClient mute(path_);
  EXPECT_TRUE(Eventually([&] { return IsClosed(mute.socket()); }));
}

TEST_F(GrpcConnectionsTest, AClientThatDoesNotAnswerDuringACallIsClosed) {
  Start({.keepalive = absl::Milliseconds(100), .keepalive_answer = absl::Milliseconds(100)});
  RawClient client(path_);
  client.SayHello();
  client.Call("/grpc.health.v1.Health/Check");
  EXPECT_TRUE(client.Next(kPing).has_value());
  EXPECT_TRUE(Eventually([&] { return IsClosed(client.socket()); }));
}

// grpcio does not read between calls. Its client would learn of the end by its next call's failure.
TEST_F(GrpcConnectionsTest, AClientIsNotAskedBetweenCalls) {
  Start({.keepalive = absl::Milliseconds(100), .keepalive_answer = absl::Milliseconds(100)});
  RawClient client(path_);
  client.SayHello();
  absl::SleepFor(absl::Seconds(1));
  EXPECT_FALSE(IsClosed(client.socket()));
}

TEST_F(GrpcConnectionsTest, AConnectionWithoutCallsIsToldToGo) {
  Start({.idle = absl::Milliseconds(100)});
  RawClient client(path_);
  client.SayHello();
  EXPECT_TRUE(client.Next(kGoAway).has_value());
  EXPECT_TRUE(Answers());
}

TEST_F(GrpcConnectionsTest, CallsOfAConnectionAreBounded) {
  Start({});
  RawClient client(path_);
  client.SayHello();
  const std::optional<Frame> settings = client.Next(kSettings);
  ASSERT_TRUE(settings.has_value());
  std::optional<uint32_t> streams;
  for (size_t i = 0; i + 6 <= settings->payload.size(); i += 6) {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(settings->payload[i + k]); };
    if ((byte(0) << 8 | byte(1)) != kMaxConcurrentStreams) continue;
    streams = static_cast<uint32_t>(byte(2)) << 24 | byte(3) << 16 | byte(4) << 8 | byte(5);
  }
  EXPECT_EQ(streams, 2048U);
}

// A client that watches the health of the server. It hears something once, and then nothing.
class Watcher {
 public:
  explicit Watcher(const std::string& path) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = grpc::health::v1::Health::NewStub(
        grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments));
    stream_ = stub_->Watch(&context_, {});
  }
  ~Watcher() {
    context_.TryCancel();
    (void)stream_->Finish();
  }
  // The next state that it is told, or UNKNOWN if the call has ended.
  grpc::health::v1::HealthCheckResponse::ServingStatus Next() {
    grpc::health::v1::HealthCheckResponse response;
    return stream_->Read(&response) ? response.status()
                                    : grpc::health::v1::HealthCheckResponse::UNKNOWN;
  }

 private:
  std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<grpc::health::v1::HealthCheckResponse>> stream_;
};

TEST_F(GrpcConnectionsTest, IdleConnectionsMakeRoomAndCallsStay) {
  constexpr int kMost = 20;
  ConnectionLimit& limit = limit_.emplace(kMost, /*silence=*/absl::Seconds(3));
  Start({.keepalive = absl::Milliseconds(200)}, &limit);
  Watcher watcher(path_);
  ASSERT_EQ(watcher.Next(), grpc::health::v1::HealthCheckResponse::SERVING);
  std::vector<RawClient> idle;
  for (int i = 1; i < kMost; ++i) {
    idle.emplace_back(path_);
    idle.back().SayHello();
    ASSERT_TRUE(idle.back().Next(kSettings).has_value());
  }
  EXPECT_TRUE(Answers()) << "idle connections keep clients out";
  // Each of these takes the place of another.
  std::vector<std::unique_ptr<Watcher>> others;
  for (int i = 1; i < kMost; ++i) {
    auto& other = others.emplace_back();
    EXPECT_TRUE(Eventually([&] {
      other = std::make_unique<Watcher>(path_);
      return other->Next() == grpc::health::v1::HealthCheckResponse::SERVING;
    })) << i;
  }
  for (const RawClient& client : idle) EXPECT_TRUE(IsClosed(client.socket()));
  absl::SleepFor(absl::Seconds(4));
  EXPECT_EQ(limit.counts().open, static_cast<size_t>(kMost));
  const UniqueFd last = UnixStream();
  ASSERT_TRUE(ConnectTo(last, path_));
  EXPECT_TRUE(Eventually([&] { return IsClosed(last); })) << "all others have calls";
  server_->SetServing(false);
  EXPECT_EQ(watcher.Next(), grpc::health::v1::HealthCheckResponse::NOT_SERVING) << "it has ended";
}

TEST_F(GrpcConnectionsTest, ConnectionsThatSayNothingDelayNeitherCallsNorTheEnd) {
  Start({});
  std::vector<RawClient> mute;
  for (int i = 0; i < 100; ++i) mute.emplace_back(path_);
  EXPECT_TRUE(Answers());
  const absl::Time before = absl::Now();
  server_->Shutdown(absl::Milliseconds(100));
  EXPECT_LT(absl::Now() - before, absl::Seconds(10));
  for (const RawClient& client : mute) {
    EXPECT_TRUE(Eventually([&] { return IsClosed(client.socket()); }));
  }
}

}  // namespace
}  // namespace folio
