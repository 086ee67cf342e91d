// Short calls whose answers are taken on threads of gRPC.
#include "services/client/worker_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/client/scripted_server.h"

namespace folio::client {
namespace {

using ::folio::testing::ScriptedServer;
using ::testing::HasSubstr;

// Waits for the answer to a call.
template <typename Answer>
class Awaited {
 public:
  WorkerCalls::Taker<Answer> taker() {
    return [state = state_](absl::StatusOr<Answer> answer) {
      state->answer = std::move(answer);
      state->taken.Notify();
    };
  }
  absl::StatusOr<Answer> Wait() {
    state_->taken.WaitForNotification();
    return state_->answer;
  }

 private:
  struct State {
    absl::StatusOr<Answer> answer;
    absl::Notification taken;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class WorkerCallsTest : public ::testing::Test {
 protected:
  ScriptedServer server_;
  std::unique_ptr<WorkerCalls> calls_ = *WorkerCalls::Connect(server_.address());
};

TEST_F(WorkerCallsTest, GiveAnswers) {
  server_.script.tokens.add_ids(7);
  server_.script.text = "seven";
  server_.script.model.set_context_length(512);
  Awaited<folio::v1::TokenizeResponse> tokens;
  Awaited<folio::v1::DetokenizeResponse> text;
  Awaited<folio::v1::GetModelResponse> model;
  Awaited<bool> serving, not_serving;
  calls_->Tokenize({}, {}, tokens.taker());
  calls_->Detokenize({}, {}, text.taker());
  calls_->GetModel({}, model.taker());
  calls_->IsServing({}, serving.taker());
  EXPECT_EQ(tokens.Wait()->ids(0), 7);
  EXPECT_EQ(text.Wait()->text(), "seven");
  EXPECT_EQ(model.Wait()->context_length(), 512);
  EXPECT_TRUE(serving.Wait().value());
  server_.SetServing(false);
  calls_->IsServing({}, not_serving.taker());
  EXPECT_FALSE(not_serving.Wait().value());
}

TEST_F(WorkerCallsTest, EndWithStatuses) {
  server_.script.hang = true;
  CallOptions options;
  options.cancellation.Cancel();
  Awaited<folio::v1::GetModelResponse> cancelled, late, lost;
  calls_->GetModel(options, cancelled.taker());
  EXPECT_EQ(cancelled.Wait().status().code(), absl::StatusCode::kCancelled);
  CallOptions short_time;
  short_time.deadline = SteadyNow() + absl::Milliseconds(20);
  calls_->GetModel(short_time, late.taker());
  EXPECT_EQ(late.Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  folio::v1::TokenizeRequest wrong;
  wrong.mutable_input()->set_text("\xff");
  Awaited<folio::v1::TokenizeResponse> refused;
  calls_->Tokenize(wrong, {}, refused.taker());
  EXPECT_EQ(refused.Wait().status().code(), absl::StatusCode::kInvalidArgument);
  server_.Stop();
  calls_->GetModel({}, lost.taker());
  calls_.reset();  // waits for the answer
  EXPECT_EQ(lost.Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lost.Wait().status().message()), HasSubstr(server_.address()));
}

TEST(WorkerCalls, NeedAnAddress) {
  EXPECT_EQ(WorkerCalls::Connect("nowhere").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace folio::client
