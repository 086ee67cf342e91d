// Clients run, leave, cancel, read late and ask for nonsense, while the manager is lost and comes
// back, and while the worker drains. Whatever is answered must be right, and all pages must come
// back. ThreadSanitizer looks at every thread of the worker here.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "folio/v1/inference.grpc.pb.h"
#include "services/base/steady_time.h"
#include "tests/worker/serving_threads_harness.h"

namespace folio::worker::testing {
namespace {

// What clients do while nothing is wrong.
void Leave(client::Client& client, std::mt19937& random, const Question& question) {
  client::Generation generation = client.Start(question.request);
  for (uint32_t events = random() % 8; events > 0; --events) {
    if (!generation.Next().has_value()) break;
  }
}

void CancelFromAnotherThread(client::Client& client, std::mt19937& random, const Question& question,
                             absl::Duration longest, const std::vector<absl::StatusCode>& ends) {
  client::Generation generation = client.Start(question.request);
  std::thread other([&generation, pause = longest * (random() % 100) / 100] {
    absl::SleepFor(pause);
    generation.Cancel();
  });
  while (generation.Next().has_value()) {
  }
  other.join();
  const absl::Status status = generation.status();
  if (status.ok() || absl::IsCancelled(status)) return;
  EXPECT_THAT(ends, ::testing::Contains(status.code())) << status;
}

void RunOutOfTime(client::Client& client, std::mt19937& random, const Question& question) {
  client::CallOptions options;
  options.deadline = SteadyNow() + absl::Milliseconds(1 + random() % 30);
  const auto answer = client.Complete(question.request, options);
  EXPECT_TRUE(answer.ok() || absl::IsDeadlineExceeded(answer.status())) << answer.status();
}

void AskForNonsense(client::Client& client, const Question& question) {
  v1::GenerateRequest request = question.request;
  request.mutable_sampling()->set_top_p(2);
  EXPECT_TRUE(absl::IsInvalidArgument(client.Complete(request).status()));
}

void CallTheRest(client::Client& client, const Question& question) {
  v1::ScoreRequest score;
  *score.mutable_input() = question.request.input();
  score.mutable_continuation()->mutable_tokens()->mutable_ids()->Assign(question.tokens.begin(),
                                                                        question.tokens.end());
  const auto scored = client.Score(score);
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_EQ(scored->tokens_size(), static_cast<int>(question.tokens.size()));
  v1::Input text;
  text.set_text("the end of the story");
  const auto tokens = client.Tokenize(text);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto back = client.Detokenize(tokens->ids());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, text.text());
  EXPECT_TRUE(client.GetModel().ok());
  EXPECT_TRUE(client.IsServing().value_or(false));
}

TEST_F(ServingThreadsTest, AnswersAreRightWhateverOthersDo) {
  const auto act = [this](client::Client& client, std::mt19937& random) {
    const Question& question = Any(random);
    switch (random() % 8) {
      case 0:
        return Leave(client, random, question);
      case 1:
        return CancelFromAnotherThread(client, random, question, absl::Milliseconds(20), {});
      case 2:
        return RunOutOfTime(client, random, question);
      case 3:
        return AskForNonsense(client, question);
      case 4:
        return CallTheRest(client, question);
      default:
        return RunWhole(client, random, {}, absl::ZeroDuration());
    }
  };
  WithClients(act, [this] {
    AwaitActs(60);
    AwaitSwap();
  });
  EXPECT_GT(ended_calls(), 30U);
}

// A call whose client reads when it wants to. The windows of its connection do not grow, so that
// the worker soon has to keep what is not read.
class SlowCall {
 public:
  SlowCall(const std::shared_ptr<grpc::Channel>& channel, const v1::GenerateRequest& request)
      : stub_(v1::Inference::NewStub(channel)), reader_(stub_->Generate(&context_, request)) {}
  ~SlowCall() {
    context_.TryCancel();
    (void)End();
  }

  bool Read() { return reader_->Read(&event_); }
  grpc::StatusCode End() {
    while (Read()) {
    }
    if (!status_) status_ = reader_->Finish();
    return status_->error_code();
  }

  static std::shared_ptr<grpc::Channel> Channel(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Inference::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  v1::GenerateResponse event_;
  std::optional<grpc::Status> status_;
};

// One client reads nothing, and its call is ended. The others do not notice, also those that read
// late.
TEST_F(ServingThreadsTest, AClientThatDoesNotReadStandsStillAlone) {
  v1::GenerateRequest request = Repeatable("streaming_llm", 32, 20, 1500);
  request.set_logprobs(20);  // of some hundred bytes each
  const auto channel = SlowCall::Channel(WorkerAddress());
  request.set_label("never read");
  SlowCall never(channel, request);
  request.set_label("read late");
  const auto act = [&](client::Client& client, std::mt19937& random) {
    if (random() % 3 != 0) return RunWhole(client, random, {}, absl::ZeroDuration());
    SlowCall late(channel, request);
    EXPECT_TRUE(late.Read());
    absl::SleepFor(kSlowClient / 3);
    for (int events = 0; events < 500; ++events) EXPECT_TRUE(late.Read());
  };
  WithClients(act, [this] { AwaitEnd("never read"); });
  EXPECT_EQ(never.End(), grpc::StatusCode::CANCELLED);
}

TEST_F(ServingThreadsTest, ClientsGoOnWhenTheManagerIsLost) {
  const absl::Duration outage = absl::Milliseconds(300);
  // The next manager knows none of the sequences.
  const std::vector<absl::StatusCode> ends = {absl::StatusCode::kUnavailable,
                                              absl::StatusCode::kNotFound,
                                              absl::StatusCode::kPermissionDenied};
  const auto act = [&](client::Client& client, std::mt19937& random) {
    if (random() % 2 == 0) {
      return CancelFromAnotherThread(client, random, Any(random), outage, ends);
    }
    RunWhole(client, random, ends, absl::Seconds(random() % 3));
  };
  WithClients(act, [&] {
    for (int times = 0; times < 2; ++times) {
      AwaitActs(8);
      LoseManager();
      absl::SleepFor(outage);
      StartManager();
      AwaitServing();
    }
    AwaitActs(8);
  });
  std::mt19937 random;
  for (int i = 0; i < 4; ++i) RunWhole(*Connect(), random, {}, absl::ZeroDuration());
}

TEST_F(ServingThreadsTest, DrainsWhileClientsAsk) {
  const std::vector<absl::StatusCode> ends = {absl::StatusCode::kUnavailable};
  const auto act = [&](client::Client& client, std::mt19937& random) {
    RunWhole(client, random, ends, absl::ZeroDuration());
  };
  WithClients(act, [this] {
    AwaitActs(8);
    serving().Drain(SteadyNow() + absl::Seconds(60));
    serving().Drain(SteadyNow() + absl::Milliseconds(50));
    EXPECT_EQ(serving().Wait(absl::Seconds(60)), absl::OkStatus());
    AwaitActs(kClients);
  });
  ExpectAllPagesFree();
}

}  // namespace
}  // namespace folio::worker::testing
