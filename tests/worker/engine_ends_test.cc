// How sequences end: stop strings, end tokens, cancellation, a lost manager, draining.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/steady_time.h"
#include "services/text/utf8.h"
#include "services/worker/engine/engine.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::HasSubstr;

class EngineEnds : public ::testing::TestWithParam<int> {
 protected:
  HarnessOptions Options() const {
    HarnessOptions options;
    options.depth = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineEnds, ::testing::Values(0, 1));

TEST_P(EngineEnds, CancelledSequencesGiveTheirPagesBack) {
  EngineHarness harness(Options());
  harness.Start();
  for (const std::string policy : {kFull, kPaged}) {
    const Ask bystander = {.prompt = 30, .seed = 9, .max_new_tokens = 200};
    Recorder cancelled, expired, other;
    auto one = harness.Push(Make({.prompt = 80,
                                  .seed = 1,
                                  .max_new_tokens = 1900,
                                  .policy = policy,
                                  .budget = policy == kFull ? 0u : 48u}),
                            &cancelled);
    auto two = harness.Push(Make({.prompt = 300, .seed = 2, .max_new_tokens = 1700}), &expired);
    harness.Push(Make(bystander), &other);
    ASSERT_TRUE(cancelled.WaitForTokens(5));
    harness.queue().Cancel(*one, CloseReason::kCancelled);
    harness.queue().Cancel(*two, CloseReason::kDeadline);
    ASSERT_TRUE(cancelled.Wait());
    ASSERT_TRUE(expired.Wait());
    EXPECT_TRUE(absl::IsCancelled(cancelled.status)) << cancelled.status;
    EXPECT_TRUE(absl::IsDeadlineExceeded(expired.status)) << expired.status;
    EXPECT_LT(cancelled.tokens.size(), 1900u);
    ASSERT_TRUE(other.Wait());
    const auto alone = harness.Run(Make(bystander));
    EXPECT_EQ(other.tokens, alone->tokens);
    EXPECT_EQ(other.logprobs, alone->logprobs);
    EXPECT_TRUE(harness.PagesAreBack());
  }
}

// The Close is part of the first message after the cancellation that follows a step boundary.
TEST(EngineCancel, TakesOneStep) {
  EngineHarness harness;
  std::shared_ptr<Submission> submission;
  std::atomic<int> commits_after = -1;
  Recorder recorder;
  recorder.on_event = [&](const v1::GenerateResponse& event) {
    if (!event.has_chunk() || event.chunk().tokens(0) == 0 || commits_after >= 0) return;
    if (submission == nullptr) return;
    commits_after = 0;
    harness.queue().Cancel(*submission, CloseReason::kCancelled);
  };
  harness.link().observer = [&](const SessionRequest& request, const SessionReply&) {
    if (commits_after >= 0) commits_after += request.commit.size();
  };
  harness.Start();
  submission = std::make_shared<Submission>();
  submission->request = Make({.prompt = 10, .max_new_tokens = 500});
  submission->sink = &recorder;
  ASSERT_TRUE(harness.queue().Push(submission).ok());
  ASSERT_TRUE(recorder.Wait());
  EXPECT_TRUE(harness.PagesAreBack());
  EXPECT_EQ(commits_after.load(), 0);
}

TEST_P(EngineEnds, RequestsCancelledBeforeTheyRun) {
  HarnessOptions options = Options();
  options.max_batch = 1;
  EngineHarness harness(options);
  harness.Start();
  Recorder running, queued, cancelled_at_once;
  auto one = harness.Push(Make({.prompt = 10, .max_new_tokens = 1500}), &running);
  auto two = harness.Push(Make({.prompt = 10, .max_new_tokens = 10}), &queued);
  harness.queue().Cancel(*two, CloseReason::kCancelled);
  ASSERT_TRUE(queued.Wait());
  EXPECT_TRUE(absl::IsCancelled(queued.status));
  EXPECT_TRUE(queued.tokens.empty());
  harness.queue().Cancel(*one, CloseReason::kCancelled);
  ASSERT_TRUE(running.Wait());
  auto three = harness.Push(Make({.prompt = 10, .max_new_tokens = 1500}), &cancelled_at_once);
  harness.queue().Cancel(*three, CloseReason::kCancelled);
  ASSERT_TRUE(cancelled_at_once.Wait());
  EXPECT_TRUE(absl::IsCancelled(cancelled_at_once.status));
}

TEST(EngineRefusals, OfTheManagerPassThrough) {
  EngineHarness harness;
  harness.Start();
  const auto got = harness.Run(Make({.prompt = 50, .policy = kPaged, .budget = 40}));
  EXPECT_TRUE(absl::IsInvalidArgument(got->status)) << got->status;
  EXPECT_THAT(std::string(got->status.message()), HasSubstr("budget"));
  EXPECT_TRUE(got->tokens.empty());
}

TEST_P(EngineEnds, StopStringsEndTheTextBeforeThem) {
  EngineHarness harness(Options());
  harness.Start();
  const Ask ask = {.prompt = 20, .seed = 12, .max_new_tokens = 120, .temperature = 1};
  const auto whole = harness.Run(Make(ask));
  const std::string text = whole->text();
  int checked = 0;
  for (size_t at = 8; at + 3 < text.size() && checked < 5; at += 13) {
    const std::string stop = text.substr(at, 3);
    if (FirstInvalidUtf8(stop)) continue;  // cuts a character
    ++checked;
    SequenceRequest request = Make(ask);
    request.output.stop = {"never in there, surely", stop};
    const auto stopped = harness.Run(std::move(request));
    ASSERT_TRUE(stopped->status.ok()) << stopped->status;
    EXPECT_EQ(stopped->text(), text.substr(0, text.find(stop)));
    EXPECT_EQ(stopped->finished.reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(stopped->finished.stop(), stop);
    ASSERT_LE(stopped->tokens.size(), whole->tokens.size());
    EXPECT_TRUE(std::equal(stopped->tokens.begin(), stopped->tokens.end(), whole->tokens.begin()));
    EXPECT_EQ(stopped->finished.usage().generated_tokens(), stopped->tokens.size());
    EXPECT_TRUE(harness.PagesAreBack());
  }
  EXPECT_GE(checked, 3);
}

// The model's bytes are random, so characters are cut all the time.
TEST_P(EngineEnds, TextIsAlwaysWholeCharacters) {
  EngineHarness harness(Options());
  harness.Start();
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const auto got =
        harness.Run(Make({.prompt = 10, .seed = seed, .max_new_tokens = 300, .temperature = 3}));
    ASSERT_TRUE(got->status.ok());
    Utf8Assembler all;
    std::string expected;
    for (const uint32_t id : got->tokens) {
      const model::Tokenizer& tokenizer = TinyLoadedModel().tokenizer();
      if (tokenizer.IsSpecial(TokenId(id))) {
        expected += all.Flush();
      } else {
        expected += all.Feed(*tokenizer.TokenBytes(TokenId(id)));
      }
    }
    expected += all.Flush();
    EXPECT_EQ(got->text(), expected);
    EXPECT_LT(got->texts.size(), got->tokens.size());  // some tokens came with the next one
    for (const std::string& text : got->texts) EXPECT_FALSE(FirstInvalidUtf8(text)) << seed;
  }
}

TEST_P(EngineEnds, EndTokens) {
  EngineHarness harness(Options());
  harness.Start();
  const model::Tokenizer& tokenizer = TinyLoadedModel().tokenizer();
  int ended = 0;
  for (uint64_t seed = 0; seed < 12 && ended < 3; ++seed) {
    const Ask ask = {.prompt = 10, .seed = seed, .max_new_tokens = 400, .temperature = 5};
    const auto whole = harness.Run(Make(ask));
    const auto eos = std::find_if(whole->tokens.begin(), whole->tokens.end(),
                                  [&](uint32_t id) { return tokenizer.IsEos(TokenId(id)); });
    EXPECT_EQ(whole->finished.reason(), v1::FINISH_REASON_LENGTH);
    if (eos == whole->tokens.end()) continue;
    ++ended;
    SequenceRequest request = Make(ask);
    request.output.ignore_eos = false;
    const auto got = harness.Run(std::move(request));
    EXPECT_EQ(got->finished.reason(), v1::FINISH_REASON_EOS);
    EXPECT_EQ(got->tokens, std::vector<uint32_t>(whole->tokens.begin(), eos + 1));
  }
  EXPECT_EQ(ended, 3);
}

TEST_P(EngineEnds, ALostManagerEndsRequestsAsUnavailable) {
  EngineHarness harness(Options());
  harness.Start();
  Recorder running;
  harness.Push(Make({.prompt = 10, .max_new_tokens = 1900}), &running);
  ASSERT_TRUE(running.WaitForTokens(3));
  harness.link().Break(absl::UnavailableError("the stream broke"));
  harness.link().Wake();
  ASSERT_TRUE(running.Wait());
  EXPECT_TRUE(absl::IsUnavailable(running.status));
  EXPECT_THAT(std::string(running.status.message()), HasSubstr("the stream broke"));
  EXPECT_EQ(harness.Join(), absl::UnavailableError("the stream broke"));
  auto late = std::make_shared<Submission>();
  EXPECT_TRUE(absl::IsUnavailable(harness.queue().Push(late)));
}

TEST_P(EngineEnds, DrainLetsRunningRequestsFinish) {
  EngineHarness harness(Options());
  harness.Start();
  Recorder running;
  harness.Push(Make({.prompt = 10, .max_new_tokens = 300}), &running);
  ASSERT_TRUE(running.WaitForTokens(3));
  harness.engine().Drain(SteadyNow() + absl::Minutes(1));
  auto late = std::make_shared<Submission>();
  const absl::Status refused = harness.queue().Push(late);
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("shutting down"));
  ASSERT_TRUE(running.Wait());
  EXPECT_TRUE(running.status.ok()) << running.status;
  EXPECT_EQ(running.tokens.size(), 300u);
  EXPECT_TRUE(harness.Join().ok());
  EXPECT_TRUE(harness.PagesAreBack());
}

TEST_P(EngineEnds, ADrainThatTakesTooLongEndsRequests) {
  EngineHarness harness(Options());
  harness.Start();
  Recorder running;
  harness.Push(Make({.prompt = 10, .max_new_tokens = 1900}), &running);
  ASSERT_TRUE(running.WaitForTokens(3));
  harness.engine().Drain(SteadyNow());
  ASSERT_TRUE(running.Wait());
  EXPECT_TRUE(absl::IsUnavailable(running.status)) << running.status;
  EXPECT_TRUE(harness.Join().ok());
  EXPECT_TRUE(harness.PagesAreBack());
}

}  // namespace
}  // namespace folio::worker::testing
