// Generations whose worker is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "services/client/client.h"
#include "tests/client/lost_worker.h"

namespace folio::client {
namespace {

using ::folio::testing::AnswerEvents;
using ::folio::testing::ScriptedServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public LostWorker {
 protected:
  ResumeTest() {
    other_.script.events[2].mutable_chunk()->set_tokens(0, 102);
    auto client = Client::Connect(lost_.address(), {.standby = {other_.address()}});
    EXPECT_TRUE(client.ok()) << client.status();
    if (client.ok()) client_ = *std::move(client);
  }

  std::unique_ptr<Client> client_;
};

TEST_F(ResumeTest, GoesOnAtAnother) {
  int started = 0;
  std::vector<uint32_t> tokens;
  std::string text;
  const absl::Status status = client_->Generate(Question(), [&](const auto& event) {
    started += event.has_started() ? 1 : 0;
    tokens.insert(tokens.end(), event.chunk().tokens().begin(), event.chunk().tokens().end());
    text += event.chunk().text();
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(started, 1);
  EXPECT_EQ(text, "one two three");
  EXPECT_THAT(tokens, ElementsAre(100, 101, 102));
  const folio::v1::GenerateRequest request = other_.generate_request();
  EXPECT_FALSE(request.has_input());
  EXPECT_EQ(request.resume().sequence_id(), 7U);
  EXPECT_EQ(request.resume().resume_token(), "secret");
  EXPECT_THAT(request.resume().received_tokens(), ElementsAre(100, 101));
}

// gRPC gives CANCELLED to calls that reach a worker in the moment in which it ends.
TEST_F(ResumeTest, GoesOnAtAnotherAfterACancellationThatIsNotItsOwn) {
  lost_.script.status = {grpc::StatusCode::CANCELLED, ""};
  const auto result = client_->Complete(Question());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->text, "one two three");
}

// Nothing was delivered, so nothing can come twice.
TEST_F(ResumeTest, BeginsAgainAtAnotherIfNothingHadCome) {
  lost_.script.events.clear();
  const auto result = client_->Complete(Question());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->text, " three");
  EXPECT_EQ(result->started.sequence_id(), 7U);
  EXPECT_EQ(other_.generate_request().SerializeAsString(), Question().SerializeAsString());
  EXPECT_EQ(lost_.script.started.load(), 1);
  EXPECT_EQ(other_.script.started.load(), 1);
}

TEST_F(ResumeTest, ResumesAfterItHasBegunAgain) {
  lost_.script.events.clear();
  other_.script.events.pop_back();
  other_.script.status = {grpc::StatusCode::UNAVAILABLE, "killed too"};
  Generation generation = client_->Start(Question());
  ASSERT_TRUE(generation.Next()->has_started());
  EXPECT_EQ(lost_.script.started.load(), 1);
  // The first worker has been started again.
  lost_.script.events = AnswerEvents({" four"});
  lost_.script.status = grpc::Status::OK;
  std::string text;
  while (const auto event = generation.Next()) text += event->chunk().text();
  EXPECT_TRUE(generation.status().ok()) << generation.status();
  EXPECT_EQ(text, " three four");
  EXPECT_THAT(lost_.generate_request().resume().received_tokens(), ElementsAre(102));
}

TEST_F(ResumeTest, BeginsAgainOnlyWhereItIsUnavailable) {
  lost_.script.events.clear();
  other_.script.events.clear();
  other_.script.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "the pool is full"};
  const absl::Status status = client_->Complete(Question()).status();
  EXPECT_EQ(status, absl::ResourceExhaustedError("the pool is full"));
  EXPECT_EQ(other_.script.started.load(), 1);
}

TEST_F(ResumeTest, AsksAgainWhileItIsNotToBeHad) {
  other_.script.events.clear();
  other_.script.status = {grpc::StatusCode::UNAVAILABLE, "not yet"};
  Generation generation = client_->Start(Question(), Resume(absl::Seconds(1)));
  for (int event = 0; event < 4; ++event) ASSERT_TRUE(generation.Next().has_value());
  lost_.Stop();
  const absl::Time begin = absl::Now();
  EXPECT_FALSE(generation.Next().has_value());
  EXPECT_EQ(generation.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(generation.status().message()), HasSubstr("; not resumed: "));
  EXPECT_GT(other_.script.started.load(), 2);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST_F(ResumeTest, SaysWhyItCannotGoOn) {
  other_.script.events.clear();
  other_.script.status = {grpc::StatusCode::NOT_FOUND, "sequence 7 is not open"};
  CallOptions options;
  options.replay = false;
  const auto result = client_->Complete(Question(), options);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("killed; not resumed: sequence 7 is not open"));
  EXPECT_EQ(other_.script.started.load(), 1);
}

TEST_F(ResumeTest, NotWithoutATokenNorWithoutTime) {
  EXPECT_EQ(client_->Complete(Question(), Resume(absl::ZeroDuration())).status().code(),
            absl::StatusCode::kUnavailable);
  lost_.script.events[0].mutable_started()->clear_resume_token();
  const absl::Status status = client_->Complete(Question()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("killed"));
  EXPECT_EQ(other_.script.started.load(), 0);
}

TEST_F(ResumeTest, IsCancelledWhileItWaits) {
  other_.script.events.clear();
  other_.script.status = {grpc::StatusCode::UNAVAILABLE, "not yet"};
  Generation generation = client_->Start(Question(), Resume(absl::Minutes(10)));
  for (int event = 0; event < 4; ++event) ASSERT_TRUE(generation.Next().has_value());
  lost_.Stop();
  std::thread canceller([&] {
    while (other_.script.started < 2) absl::SleepFor(absl::Milliseconds(1));
    generation.Cancel();
  });
  while (generation.Next().has_value()) {
  }
  canceller.join();
  EXPECT_EQ(generation.status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(other_.script.started.load(), 20);
}

TEST(Keepalive, IsNothingOrWhatServersAllow) {
  ScriptedServer server;
  for (const absl::Duration keepalive : {absl::Seconds(4.9), -absl::Seconds(1), absl::Hours(25)}) {
    const auto client = Client::Connect(server.address(), {.keepalive = keepalive});
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << keepalive;
    EXPECT_THAT(std::string(client.status().message()), HasSubstr("keepalive")) << keepalive;
  }
  for (const absl::Duration keepalive : {absl::ZeroDuration(), absl::Seconds(5)}) {
    EXPECT_TRUE(Client::Connect(server.address(), {.keepalive = keepalive}).ok()) << keepalive;
  }
}

TEST(Standby, MustBeAddresses) {
  ScriptedServer server;
  const auto client = Client::Connect(server.address(), {.standby = {"/run/worker.sock"}});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace folio::client
