// Generations whose sequence is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/client/client.h"
#include "services/client/streams.h"
#include "tests/client/lost_worker.h"

namespace folio::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The other worker does not have the sequence, and computes it again when it is asked to.
class ReplayTest : public LostWorker {
 protected:
  ReplayTest() {
    lost_.script.events[0].mutable_started()->set_seed(99);
    other_.script.events[0].mutable_started()->set_replayed_tokens(2);
    other_.script.resumed = {grpc::StatusCode::NOT_FOUND, "sequence 7 is not open"};
  }

  absl::StatusOr<Completion> Complete(const CallOptions& options = {}) {
    auto client = Client::Connect(lost_.address(), {.standby = {other_.address()}});
    EXPECT_TRUE(client.ok()) << client.status();
    return (*client)->Complete(question_, options);
  }

  folio::v1::GenerateRequest question_ = Question();
};

TEST_F(ReplayTest, ComputesTheSequenceAgain) {
  question_.set_max_tokens(3);
  question_.mutable_sampling()->set_temperature(0.5F);
  const auto result = Complete();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->text, "one two three");
  EXPECT_EQ(result->started.replayed_tokens(), 0U) << "it is that of the first time";
  EXPECT_EQ(result->finished.replays(), 1U);
  const auto requests = other_.generate_requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].resume().sequence_id(), 7U);
  folio::v1::GenerateRequest again = requests[1];
  EXPECT_THAT(again.replay().received_tokens(), ElementsAre(100, 101));
  EXPECT_EQ(again.sampling().seed(), 99U);
  again.clear_replay();
  again.mutable_sampling()->clear_seed();
  EXPECT_EQ(again.SerializeAsString(), question_.SerializeAsString());
}

// A manager without a record gives numbers again.
TEST_F(ReplayTest, AlsoWhereTheNumberIsAnothersNow) {
  other_.script.resumed = {grpc::StatusCode::PERMISSION_DENIED, "resume_token: is not the one"};
  const auto result = Complete();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->text, "one two three");
}

TEST_F(ReplayTest, SaysItsEventsOnce) {
  auto client = Client::Connect(lost_.address(), {.standby = {other_.address()}});
  ASSERT_TRUE(client.ok());
  std::vector<folio::v1::GenerateResponse::EventCase> kinds;
  EXPECT_TRUE((*client)
                  ->Generate(question_,
                             [&](const auto& event) {
                               kinds.push_back(event.event_case());
                               return true;
                             })
                  .ok());
  using Event = folio::v1::GenerateResponse;
  EXPECT_THAT(kinds, ElementsAre(Event::kStarted, Event::kPrefill, Event::kChunk, Event::kChunk,
                                 Event::kChunk, Event::kFinished));
}

TEST_F(ReplayTest, NotWithoutLeaveNorWithEvictions) {
  CallOptions options;
  options.replay = false;
  absl::Status status = Complete(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("killed; not resumed: sequence 7"));
  question_.set_report_evictions(true);
  status = Complete().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("killed; not resumed: sequence 7"));
  EXPECT_EQ(other_.generate_requests().size(), 2U);
}

TEST_F(ReplayTest, ARefusalIsTheEnd) {
  other_.script.events.clear();
  for (const auto code : {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::RESOURCE_EXHAUSTED,
                          grpc::StatusCode::DATA_LOSS, grpc::StatusCode::PERMISSION_DENIED}) {
    other_.script.status = {code, "no"};
    const size_t before = other_.generate_requests().size();
    const absl::Status status = Complete().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("killed; not replayed: no"));
    EXPECT_EQ(other_.generate_requests().size(), before + 2);
  }
}

TEST_F(ReplayTest, OtherEndsAreNotRepeated) {
  for (const auto code : {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::DATA_LOSS,
                          grpc::StatusCode::ABORTED}) {
    lost_.script.status = {code, "no"};
    EXPECT_EQ(Complete().status().message(), "no");
  }
  EXPECT_TRUE(other_.generate_requests().empty());
}

TEST_F(ReplayTest, AWorkerThatKnowsNoReplaysIsNotBelieved) {
  other_.script.events[0].mutable_started()->clear_replayed_tokens();
  const auto result = Complete();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("not replayed: the worker is older"));
}

// ABORTED: the manager has given it up, because it may be what ends its workers.
TEST_F(ReplayTest, NotUnlessItIsGone) {
  for (const auto code : {grpc::StatusCode::ABORTED, grpc::StatusCode::INVALID_ARGUMENT,
                          grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::INTERNAL}) {
    other_.script.resumed = {code, "no"};
    const absl::Status status = Complete().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("killed; not resumed: no"));
  }
  EXPECT_EQ(other_.generate_requests().size(), 4U);
}

// Each worker is lost as soon as it has computed the sequence again.
TEST_F(ReplayTest, NotForEver) {
  other_.script.events.resize(1);
  other_.script.status = {grpc::StatusCode::UNAVAILABLE, "killed too"};
  auto client = Client::Connect(other_.address());
  ASSERT_TRUE(client.ok());
  other_.script.events[0].mutable_started()->clear_replayed_tokens();
  const absl::Status status = (*client)->Complete(question_).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("killed too; not resumed: sequence 7"));
  // The first time, and three replays, each followed by the question for the sequence.
  EXPECT_EQ(other_.generate_requests().size(), 8U);
}

class ReplayListener : public StreamListener {
 public:
  void OnEvent(const folio::v1::GenerateResponse& event, SteadyTime) override {
    text += event.chunk().text();
    if (event.has_finished()) replays = event.finished().replays();
  }
  void OnResumed(size_t) override { ++resumed; }
  void OnReplayed() override { ++replayed; }
  void OnEnd(const absl::Status& why) override { status = why; }

  std::string text;
  uint32_t replays = 0;
  int resumed = 0, replayed = 0;
  absl::Status status;
};

TEST_F(ReplayTest, StreamsDoTheSame) {
  ReplayListener good, old;
  {
    auto streams = Streams::Connect({lost_.address(), other_.address()});
    ASSERT_TRUE(streams.ok());
    (*streams)->Start(question_, 0, &good);
  }
  EXPECT_TRUE(good.status.ok()) << good.status;
  EXPECT_EQ(good.text, "one two three");
  EXPECT_EQ(good.resumed, 1);
  EXPECT_EQ(good.replayed, 1);
  EXPECT_EQ(good.replays, 1U);
  other_.script.events[0].mutable_started()->clear_replayed_tokens();
  {
    auto streams = Streams::Connect({lost_.address(), other_.address()});
    ASSERT_TRUE(streams.ok());
    (*streams)->Start(question_, 0, &old);
  }
  EXPECT_THAT(std::string(old.status.message()), HasSubstr("not replayed: the worker is older"));
  EXPECT_EQ(old.text, "one two");
  EXPECT_EQ(old.resumed, 0);
}

}  // namespace
}  // namespace folio::client
