// Many generations at once, on threads of gRPC.
#include "services/client/streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/client/lost_worker.h"

namespace folio::client {
namespace {

using ::folio::testing::AnswerEvents;
using ::folio::testing::ScriptedServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Listener : public StreamListener {
 public:
  void OnEvent(const folio::v1::GenerateResponse& event, SteadyTime arrival) override {
    EXPECT_GE(arrival, last);
    EXPECT_LE(arrival, SteadyNow());
    last = arrival;
    started += event.has_started() ? 1 : 0;
    text += event.chunk().text();
  }
  void OnResumed(size_t worker) override {
    ++resumed;
    lost = worker;
  }
  void OnEnd(const absl::Status& why) override {
    status = why;
    ended.Notify();
  }
  absl::Status Wait() {
    ended.WaitForNotification();
    return status;
  }

  SteadyTime last;
  int started = 0;
  int resumed = 0;
  size_t lost = 99;
  std::string text;
  absl::Status status;
  absl::Notification ended;
};

class StreamsTest : public LostWorker {
 protected:
  StreamsTest() {
    auto streams = Streams::Connect({lost_.address(), other_.address()}, {.connections = 2});
    EXPECT_TRUE(streams.ok()) << streams.status();
    if (streams.ok()) streams_ = *std::move(streams);
  }

  std::unique_ptr<Streams> streams_;
};

TEST_F(StreamsTest, ManyRunAtOnce) {
  other_.script.hang = true;
  other_.script.events.pop_back();
  std::deque<Listener> listeners(50);
  const CallOptions options;
  for (Listener& listener : listeners) streams_->Start(Question(), 1, &listener, options);
  // The server has a thread for each, and none of them has ended.
  while (other_.script.started < 50) absl::SleepFor(absl::Milliseconds(1));
  options.cancellation.Cancel();
  for (Listener& listener : listeners) {
    EXPECT_EQ(listener.Wait().code(), absl::StatusCode::kCancelled);
  }
  Listener late;
  streams_->Start(Question(), 1, &late, options);
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(StreamsTest, ContinuesAtTheNextAddress) {
  Listener listener;
  streams_->Start(Question(), 0, &listener);
  EXPECT_TRUE(listener.Wait().ok()) << listener.status;
  EXPECT_EQ(listener.text, "one two three");
  EXPECT_EQ(listener.started, 1);
  EXPECT_EQ(listener.resumed, 1);
  EXPECT_EQ(listener.lost, 0U);
  const folio::v1::GenerateRequest request = other_.generate_request();
  EXPECT_FALSE(request.has_input());
  EXPECT_EQ(request.resume().resume_token(), "secret");
  EXPECT_THAT(request.resume().received_tokens(), ElementsAre(100, 101));
}

TEST_F(StreamsTest, BeginsAgainIfNothingHadCome) {
  lost_.script.events.clear();
  Listener listener;
  streams_->Start(Question(), 0, &listener);
  EXPECT_TRUE(listener.Wait().ok()) << listener.status;
  EXPECT_EQ(listener.text, " three");
  EXPECT_EQ(listener.started, 1);
  EXPECT_EQ(listener.resumed, 1);
  EXPECT_EQ(other_.generate_request().SerializeAsString(), Question().SerializeAsString());
}

TEST_F(StreamsTest, EndsWhenTheTimeIsUp) {
  other_.script.events.clear();
  other_.script.status = {grpc::StatusCode::UNAVAILABLE, "not yet"};
  Listener listener;
  streams_->Start(Question(), 0, &listener, Resume(absl::Seconds(1)));
  while (other_.script.started == 0) absl::SleepFor(absl::Milliseconds(1));
  lost_.Stop();
  const SteadyTime begin = SteadyNow();
  EXPECT_EQ(listener.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(listener.status.message()), HasSubstr("; not resumed: "));
  EXPECT_GT(other_.script.started.load(), 1);
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(10));
}

TEST_F(StreamsTest, SaysWhyItIsNotContinued) {
  other_.script.events.clear();
  other_.script.status = {grpc::StatusCode::NOT_FOUND, "sequence 7 is not open"};
  Listener listener;
  CallOptions options;
  options.replay = false;
  streams_->Start(Question(), 0, &listener, options);
  EXPECT_EQ(listener.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(listener.status.message()),
              HasSubstr("killed; not resumed: sequence 7 is not open"));
}

TEST_F(StreamsTest, WithoutTimeALossIsTheEnd) {
  Listener listener;
  streams_->Start(Question(), 0, &listener, Resume(absl::ZeroDuration()));
  EXPECT_EQ(listener.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(other_.script.started, 0);
}

TEST_F(StreamsTest, AnswersThatEndTooEarlyAndTextsThatAreNoneAreErrors) {
  other_.script.events.pop_back();
  Listener listener;
  streams_->Start(Question(), 1, &listener);
  EXPECT_EQ(listener.Wait().code(), absl::StatusCode::kInternal);
  folio::v1::GenerateRequest wrong = Question();
  wrong.set_label("\xff");
  Listener refused;
  streams_->Start(wrong, 1, &refused);
  EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StreamsTest, ItsEndWaitsForTheLastAnswer) {
  Listener listener;
  streams_->Start(Question(), 0, &listener);
  streams_.reset();
  EXPECT_TRUE(listener.ended.HasBeenNotified());
}

// Closes the gate with its first event.
class SlowListener : public Listener {
 public:
  void OnEvent(const folio::v1::GenerateResponse& event, SteadyTime arrival) override {
    if (closes) gate.Close();
    Listener::OnEvent(event, arrival);
    ++events;
  }

  ReadGate gate;
  std::atomic<bool> closes = true;
  std::atomic<int> events = 0;
};

TEST_F(StreamsTest, AClosedGateHoldsEventsBack) {
  SlowListener slow;
  Listener other;
  streams_->Start(Question(), 1, &slow, {}, slow.gate);
  while (slow.events == 0) absl::SleepFor(absl::Milliseconds(1));
  streams_->Start(Question(), 1, &other);
  EXPECT_TRUE(other.Wait().ok()) << other.status;
  EXPECT_EQ(slow.events, 1);
  EXPECT_FALSE(slow.ended.HasBeenNotified());
  // It closes again with each event, and each opening lets one through.
  slow.gate.Open();
  while (slow.events < 2) absl::SleepFor(absl::Milliseconds(1));
  slow.closes = false;
  slow.gate.Open();
  EXPECT_TRUE(slow.Wait().ok()) << slow.status;
  EXPECT_EQ(slow.text, other.text);
}

TEST_F(StreamsTest, AGenerationIsCancelledBehindAClosedGate) {
  other_.script.hang = true;
  std::deque<SlowListener> listeners(20);
  const CallOptions options;
  const ReadGate gate;
  for (SlowListener& listener : listeners) {
    listener.gate = gate;
    streams_->Start(Question(), 1, &listener, options, gate);
  }
  // Some are held up, and some are still to see that the gate is closed.
  while (listeners.front().events == 0) absl::SleepFor(absl::Milliseconds(1));
  options.cancellation.Cancel();
  for (SlowListener& listener : listeners) {
    EXPECT_EQ(listener.Wait().code(), absl::StatusCode::kCancelled);
  }
}

TEST(Streams, NeedAddresses) {
  EXPECT_EQ(Streams::Connect({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Streams::Connect({"nowhere"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Streams::Connect({"unix:/nowhere"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Streams::Connect({"unix:/nowhere"}, {.connect = {.check = false}}).ok());
}

}  // namespace
}  // namespace folio::client
