// Streams of the C++ SDK, which many threads begin and cancel, while the manager is lost and comes
// back, and which end in the middle. ThreadSanitizer looks at the threads of gRPC that run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/client/streams.h"
#include "tests/worker/serving_threads_harness.h"

namespace folio::worker::testing {
namespace {

// The end that a generation is given.
enum class Fate : uint8_t { kWhole, kDeadline, kCancelledByListener };

// Hears one generation, and checks its end. Threads of gRPC write what it hears without a lock,
// because a generation has one of them at a time.
class Listener : public client::StreamListener {
 public:
  Listener(const Question& question, Fate fate, uint32_t number)
      : question_(question), fate_(fate), number_(number) {
    if (fate == Fate::kDeadline) {
      options.deadline = SteadyNow() + absl::Milliseconds(1 + number % 30);
    }
  }

  void OnEvent(const v1::GenerateResponse& event, SteadyTime arrival) override {
    EXPECT_GE(arrival, last_);
    last_ = arrival;
    const auto& tokens = event.chunk().tokens();
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    if (fate_ == Fate::kCancelledByListener && events_++ == number_ % 8) {
      options.cancellation.Cancel();
    }
  }
  void OnResumed(size_t) override { ++resumed_; }
  void OnEnd(const absl::Status& why) override {
    status_ = why;
    ended_.Notify();
  }

  bool ended() const { return ended_.HasBeenNotified(); }
  // Waits for the end, and returns how often the generation was resumed.
  int Check(std::vector<absl::StatusCode> ends) {
    ended_.WaitForNotification();
    if (fate_ == Fate::kDeadline) ends.push_back(absl::StatusCode::kDeadlineExceeded);
    if (cancelled()) ends.push_back(absl::StatusCode::kCancelled);
    if (status_.ok()) {
      EXPECT_EQ(tokens_, question_.tokens);
    } else {
      EXPECT_THAT(ends, ::testing::Contains(status_.code())) << status_;
    }
    return resumed_;
  }

  client::CallOptions options;

 private:
  bool cancelled() const { return options.cancellation.cancelled(); }

  const Question& question_;
  const Fate fate_;
  const uint32_t number_;
  SteadyTime last_;
  uint32_t events_ = 0;
  int resumed_ = 0;
  std::vector<uint32_t> tokens_;
  absl::Status status_;
  absl::Notification ended_;
};

class StreamsThreadsTest : public ServingThreadsTest {
 protected:
  std::unique_ptr<client::Streams> ConnectStreams() const {
    client::StreamsOptions options = {.connections = 2};
    options.connect.timeout = absl::Seconds(60);
    options.connect.keepalive = absl::ZeroDuration();  // as that of Connect
    auto streams = client::Streams::Connect({WorkerAddress()}, options);
    EXPECT_TRUE(streams.ok()) << streams.status();
    return streams.ok() ? *std::move(streams) : nullptr;
  }

  // Begins two generations that end in any way, and waits for them. They may also end with `ends`.
  void RunTwo(client::Streams& streams, std::mt19937& random,
              const std::vector<absl::StatusCode>& ends, absl::Duration resume) {
    std::deque<Listener> listeners;
    for (int i = 0; i < 2; ++i) Begin(streams, random, resume, &listeners);
    absl::SleepFor(absl::Milliseconds(random() % 20));
    if (random() % 2 == 0) listeners.front().options.cancellation.Cancel();
    for (Listener& listener : listeners) resumed_ += listener.Check(ends);
  }

  // Streams that end while their generations run.
  void EndStreams(std::mt19937& random, const std::vector<absl::StatusCode>& ends) {
    std::deque<Listener> listeners;
    std::unique_ptr<client::Streams> streams = ConnectStreams();
    for (int i = 0; i < 2; ++i) Begin(*streams, random, absl::ZeroDuration(), &listeners);
    if (random() % 2 == 0) listeners.back().options.cancellation.Cancel();
    streams.reset();
    for (Listener& listener : listeners) {
      EXPECT_TRUE(listener.ended());
      listener.Check(ends);
    }
  }

  int resumed() const { return resumed_; }

 private:
  void Begin(client::Streams& streams, std::mt19937& random, absl::Duration resume,
             std::deque<Listener>* listeners) {
    const Question& question = Any(random);
    const auto fate = static_cast<Fate>(random() % 3);
    Listener& listener = listeners->emplace_back(question, fate, random());
    listener.options.resume = resume;
    streams.Start(question.request, 0, &listener, listener.options);
  }

  std::atomic<int> resumed_ = 0;
};

TEST_F(StreamsThreadsTest, AnswersAreRightHoweverTheOthersEnd) {
  const std::unique_ptr<client::Streams> shared = ConnectStreams();
  const auto act = [&](client::Client&, std::mt19937& random) {
    if (random() % 4 == 0) return EndStreams(random, {});
    RunTwo(*shared, random, {}, absl::ZeroDuration());
  };
  WithClients(act, [this] { AwaitActs(20); });
  EXPECT_GT(ended_calls(), 20U);
}

TEST_F(StreamsThreadsTest, GenerationsAreResumedWhenTheManagerIsLost) {
  // The next manager knows none of the sequences.
  const std::vector<absl::StatusCode> ends = {absl::StatusCode::kUnavailable,
                                              absl::StatusCode::kNotFound,
                                              absl::StatusCode::kPermissionDenied};
  const std::unique_ptr<client::Streams> shared = ConnectStreams();
  const auto act = [&](client::Client&, std::mt19937& random) {
    RunTwo(*shared, random, ends, absl::Seconds(random() % 2 * 20));
  };
  WithClients(act, [&] {
    for (int times = 0; times < 2; ++times) {
      AwaitActs(8);
      LoseManager();
      absl::SleepFor(absl::Milliseconds(300));
      StartManager();
      AwaitServing();
    }
    AwaitActs(8);
  });
  // Those that began while there was no manager.
  EXPECT_GT(resumed(), 0);
}

}  // namespace
}  // namespace folio::worker::testing
