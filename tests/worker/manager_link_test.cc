// The link to a manager that stands still, or that has no thread left, over a real gRPC server.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "services/worker/link/grpc_manager_link.h"
#include "services/worker/link/manager_channel.h"
#include "services/worker/pool/pool_attachment.h"
#include "tests/common/temp_dir.h"

namespace folio::worker {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Milliseconds(600);
// Far above everything that should happen, and far below what a hang would take.
constexpr absl::Duration kLong = absl::Seconds(20);

// A manager whose sessions answer the first requests and then stand still until they are cancelled
// or released. Attach refuses for good, so that a test can see that it was reached.
class StandingManager final : public v1::KvManager::Service {
 public:
  explicit StandingManager(int answers) : answers_(answers) {}

  grpc::Status Attach(grpc::ServerContext*, const v1::AttachRequest*,
                      v1::AttachResponse*) override {
    return {grpc::StatusCode::FAILED_PRECONDITION, "reached"};
  }
  using Stream = grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>;
  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override {
    v1::SessionRequest request;
    for (int i = 0; i < answers_ && stream->Read(&request); ++i) {
      v1::SessionReply reply;
      reply.set_step(request.step());
      stream->Write(reply);
    }
    ++standing_;
    while (!context->IsCancelled() && !released_) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status::OK;
  }

  // Sessions that have come to a standstill.
  int standing() const { return standing_; }
  void Release() { released_ = true; }

 private:
  const int answers_;
  std::atomic<int> standing_ = 0;
  std::atomic<bool> released_ = false;
};

class ManagerLinkTest : public ::testing::Test {
 protected:
  void TearDown() override {
    manager_->Release();
    server_->Shutdown();
  }

  // Its sessions stand still after so many answers. With `threads` other than 0 the server has no
  // more than these.
  StandingManager& Serve(int answers, int threads = 0) {
    manager_ = std::make_unique<StandingManager>(answers);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(manager_.get());
    grpc::ResourceQuota quota;
    if (threads > 0) builder.SetResourceQuota(quota.SetMaxThreads(threads));
    server_ = builder.BuildAndStart();
    FOLIO_CHECK(server_ != nullptr);
    return *manager_;
  }
  std::unique_ptr<GrpcManagerLink> Link() const {
    return std::make_unique<GrpcManagerLink>(MakeManagerChannel(address()),
                                             SessionOptions{"w1", "token", kLease, 1},
                                             [] { return StepProgress{}; });
  }
  std::string address() const { return "unix:" + (dir_ / "manager.sock"); }

  // Why the link ends, once it has.
  static absl::Status End(GrpcManagerLink& link) {
    const SteadyTime deadline = SteadyNow() + kLong;
    while (link.status().ok() && SteadyNow() < deadline) (void)link.Receive(deadline);
    return link.status();
  }
  static void ExpectSilent(const absl::Status& status) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has not answered for 600ms"));
  }

 private:
  const testing::TempDir dir_;
  std::unique_ptr<StandingManager> manager_;  // outlives its server
  std::unique_ptr<grpc::Server> server_;
};

SessionRequest LongPrompts() {
  SessionRequest request;
  for (uint64_t tag = 1; tag <= 60; ++tag) {
    OpenSequence& open = request.open.emplace_back();
    open.request_tag = tag;
    open.prompt.assign(7000, TokenId(40000));
  }
  return request;
}

TEST_F(ManagerLinkTest, AManagerThatStandsStillIsNoticedWithinTheLease) {
  Serve(/*answers=*/2);
  const auto link = Link();
  const SteadyTime start = SteadyNow();
  ExpectSilent(End(*link));
  EXPECT_GE(SteadyNow() - start, kLease) << "it answered the hello";
}

// More than the stream's flow-control window holds, so that a write blocks.
TEST_F(ManagerLinkTest, ItIsNoticedAlsoWhileAWriteBlocks) {
  Serve(/*answers=*/1);
  auto link = Link();
  ASSERT_TRUE(link->Receive(SteadyNow() + kLong).has_value());
  for (int i = 0; i < 4; ++i) link->Send(LongPrompts());
  const SteadyTime start = SteadyNow();
  ExpectSilent(End(*link));
  EXPECT_LT(SteadyNow() - start, kLong / 2);
  // The end of the link does not hang in the write either.
  link.reset();
  EXPECT_LT(SteadyNow() - start, kLong / 2);
}

// A link that ends while a write blocks gives up after its second.
TEST_F(ManagerLinkTest, ABlockedWriteDoesNotHoldUpTheEnd) {
  Serve(/*answers=*/1);
  auto link = Link();
  ASSERT_TRUE(link->Receive(SteadyNow() + kLong).has_value());
  for (int i = 0; i < 4; ++i) link->Send(LongPrompts());
  const SteadyTime start = SteadyNow();
  link.reset();
  EXPECT_LT(SteadyNow() - start, kLong / 2);
}

// gRPC itself refuses calls for which the server has no thread.
TEST_F(ManagerLinkTest, AManagerWithoutThreadsIsTriedAgain) {
  StandingManager& manager = Serve(/*answers=*/1, /*threads=*/2);
  const auto holder = MakeManagerChannel(address());
  const auto stub = v1::KvManager::NewStub(holder);
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  stream->Write(v1::SessionRequest());
  v1::SessionReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  const SteadyTime deadline = SteadyNow() + kLong;
  while (manager.standing() == 0 && SteadyNow() < deadline) absl::SleepFor(absl::Milliseconds(1));

  const absl::Status session = End(*Link());
  EXPECT_TRUE(absl::IsUnavailable(session)) << "another attempt may succeed: " << session;
  EXPECT_THAT(std::string(session.message()), HasSubstr("Exhausted"));

  v1::ModelLayout layout;
  const auto attach = [&](absl::Duration timeout, const std::function<bool()>& stop) {
    return AttachWithRetry(MakeManagerChannel(address()), {"w"}, {&layout}, timeout, stop).status();
  };
  const absl::Status gave_up = attach(absl::Milliseconds(300), [] { return false; });
  EXPECT_TRUE(absl::IsResourceExhausted(gave_up)) << gave_up;
  EXPECT_THAT(std::string(gave_up.message()), HasSubstr("the manager had no room within 300ms: "));
  // `stop` is asked before each attempt and between them, so one attempt was refused by then.
  int asked = 0;
  const absl::Status reached = attach(kLong, [&] {
    if (++asked == 3) manager.Release();
    return false;
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(reached)) << reached;
  EXPECT_GE(asked, 3);
  context.TryCancel();
  (void)stream->Finish();
}

TEST(RetryWhileUnavailable, RepeatsWhatMayPassAndNothingElse) {
  const auto channel = MakeManagerChannel("unix:/nowhere.sock");
  for (const absl::Status& passing :
       {absl::UnavailableError("away"), absl::DeadlineExceededError("stands still"),
        absl::ResourceExhaustedError("no thread")}) {
    int attempts = 0;
    const absl::Status status = RetryWhileUnavailable(
        *channel, kLong, [] { return false; },
        [&] { return ++attempts == 2 ? absl::OkStatus() : passing; });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(attempts, 2) << passing;
  }
  int attempts = 0;
  const absl::Status refused = RetryWhileUnavailable(
      *channel, kLong, [] { return false; },
      [&] {
        ++attempts;
        return absl::FailedPreconditionError("another model");
      });
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(attempts, 1);
}

}  // namespace
}  // namespace folio::worker
