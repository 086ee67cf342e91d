// Requests that find the pool full: they wait in their order, end in time, and can be cancelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "services/worker/engine/engine.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::HasSubstr;

class EngineWaits : public ::testing::TestWithParam<int> {
 protected:
  HarnessOptions Options() const {
    HarnessOptions options;
    options.depth = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineWaits, ::testing::Values(0, 1));

TEST_P(EngineWaits, ARequestWithoutRoomEndsWhenItHasWaited) {
  HarnessOptions options = Options();
  options.num_pages = 100;  // 2 layers: 800 tokens
  options.queue_timeout = absl::Milliseconds(20);
  EngineHarness harness(options);
  harness.Start();
  Recorder running, refused;
  const Ask ask = {.prompt = 100, .seed = 4, .max_new_tokens = 500};
  running.on_event = [&](const v1::GenerateResponse& event) {
    if (!event.has_started()) return;
    harness.Push(Make({.prompt = 300, .seed = 5, .max_new_tokens = 100}), &refused);
  };
  harness.Push(Make(ask), &running);
  ASSERT_TRUE(refused.Wait());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("waited 20ms (--queue_timeout)"));
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("pages"));
  ASSERT_TRUE(running.Wait());
  ASSERT_TRUE(running.status.ok()) << running.status;
  EXPECT_TRUE(harness.PagesAreBack());
  EXPECT_EQ(running.tokens, harness.Run(Make(ask))->tokens);
}

TEST_P(EngineWaits, AFullPoolLetsRequestsWaitInOrder) {
  HarnessOptions options = Options();
  options.num_pages = 100;  // 2 layers: 800 tokens
  EngineHarness harness(options);
  harness.Start();
  Recorder running, large, small;
  const Ask first = {.prompt = 100, .seed = 4, .max_new_tokens = 400};
  const Ask second = {.prompt = 300, .seed = 5, .max_new_tokens = 300};
  const Ask third = {.prompt = 10, .seed = 6, .max_new_tokens = 10};
  std::atomic<bool> large_started = false, passed = false;
  large.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_started()) large_started = true;
  };
  small.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_started() && !large_started) passed = true;
  };
  harness.Push(Make(first), &running);
  ASSERT_TRUE(running.WaitForTokens(1));
  harness.Push(Make(second), &large);
  harness.Push(Make(third), &small);  // there is room for it, but it came later
  for (Recorder* recorder : {&running, &large, &small}) {
    ASSERT_TRUE(recorder->Wait());
    ASSERT_TRUE(recorder->status.ok()) << recorder->status;
  }
  EXPECT_FALSE(passed);
  EXPECT_TRUE(harness.PagesAreBack());
  EXPECT_EQ(large.tokens, harness.Run(Make(second))->tokens);
}

TEST_P(EngineWaits, ARequestThatWaitsForRoomCanBeCancelled) {
  HarnessOptions options = Options();
  options.num_pages = 100;
  EngineHarness harness(options);
  harness.Start();
  Recorder running, waiting;
  const auto one = harness.Push(Make({.prompt = 100, .seed = 4, .max_new_tokens = 500}), &running);
  ASSERT_TRUE(running.WaitForTokens(1));
  const auto two = harness.Push(Make({.prompt = 300, .max_new_tokens = 100}), &waiting);
  harness.queue().Cancel(*two, CloseReason::kCancelled);
  ASSERT_TRUE(waiting.Wait());
  EXPECT_TRUE(absl::IsCancelled(waiting.status)) << waiting.status;
  harness.queue().Cancel(*one, CloseReason::kCancelled);
  ASSERT_TRUE(running.Wait());
  EXPECT_TRUE(harness.PagesAreBack());
}

}  // namespace
}  // namespace folio::worker::testing
