// A pool that runs dry: sequences give their pages back, are computed again, and have the same
// tokens, log-probabilities and evictions as if they had been alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/worker/engine_harness.h"
#include "tests/worker/lost_while_parked.h"

namespace folio::worker::testing {
namespace {

class EngineParking : public ::testing::TestWithParam<int> {
 protected:
  // 2 layers of 30 pages of 16 tokens: 480 tokens.
  HarnessOptions Options() const {
    HarnessOptions options;
    options.depth = GetParam();
    options.num_pages = 60;
    options.token_budget = {.alone = 32, .beside_decodes = 32};
    options.admission = cache::Admission::kOptimistic;
    options.orphan_ttl = absl::Hours(1);
    return options;
  }

  static std::unique_ptr<Recorder> Alone(const Ask& ask) {
    EngineHarness harness;
    harness.Start();
    return harness.Run(Make(ask));
  }
  static uint64_t Preemptions(EngineHarness& harness) {
    return harness.engine().counters().preemptions;
  }
  // Asks all at once. Each answer is the one that the request gets alone. The harness starts here.
  static void ExpectTogetherAsAlone(EngineHarness& harness, const std::vector<Ask>& asks);
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineParking, ::testing::Values(0, 1));

void ExpectSame(const Recorder& a, const Recorder& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.logprobs, b.logprobs);
  EXPECT_EQ(a.text(), b.text());
  EXPECT_EQ(a.evictions, b.evictions);
}

void EngineParking::ExpectTogetherAsAlone(EngineHarness& harness, const std::vector<Ask>& asks) {
  // The first one waits for the others before its first step, so that they meet on any machine. A
  // harness starts with a request of one token.
  constexpr size_t kProbe = 1;
  const auto pushed = std::make_shared<absl::Notification>();
  harness.link().observer = [&harness, pushed](const SessionRequest& request, const SessionReply&) {
    harness.ScribbleOnFreePages();
    const bool first = !request.open.empty() && request.open[0].prompt.size() > kProbe;
    if (first) pushed->WaitForNotification();
  };
  harness.Start();
  std::vector<Recorder> recorders(asks.size());
  for (size_t i = 0; i < asks.size(); ++i) harness.Push(Make(asks[i]), &recorders[i]);
  pushed->Notify();
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSERT_TRUE(recorders[i].Wait());
    ExpectSame(recorders[i], *Alone(asks[i]));
  }
}

TEST_P(EngineParking, SequencesThatGaveTheirPagesBackAreTheSame) {
  EngineHarness harness(Options());
  std::vector<Ask> asks;
  // Each needs up to 12 or 13 pages a layer, and together they need twice the pool.
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    asks.push_back({.prompt = 60, .seed = seed, .max_new_tokens = 140, .temperature = 1});
  }
  ASSERT_NO_FATAL_FAILURE(ExpectTogetherAsAlone(harness, asks));
  EXPECT_GT(Preemptions(harness), 0u);
  EXPECT_TRUE(harness.PagesAreBack());
}

TEST_P(EngineParking, EvictionsAreMadeAgain) {
  for (const char* policy :
       {"paged_eviction", "key_diff", "snap_kv:window=16", "query_diff:window=16,pool=3",
        "kv_crush:paged_eviction", "random:seed=3"}) {
    SCOPED_TRACE(policy);
    EngineHarness harness(Options());
    std::vector<Ask> asks = {{.prompt = 100, .seed = 9, .max_new_tokens = 260}};
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      asks.push_back({.prompt = 150,
                      .seed = seed,
                      .max_new_tokens = 200 + 10 * static_cast<uint32_t>(seed),
                      .policy = policy,
                      .budget = 96});
    }
    ASSERT_NO_FATAL_FAILURE(ExpectTogetherAsAlone(harness, asks));
    EXPECT_GT(Preemptions(harness), 0u);
    EXPECT_TRUE(harness.PagesAreBack());
  }
}

TEST_P(EngineParking, PromptsLargerThanAChunkComeBackToo) {
  EngineHarness harness(Options());
  harness.Start();
  // The second prompt is still computed when the first one needs its pages.
  const Ask first = {.prompt = 200, .seed = 1, .max_new_tokens = 270};
  const Ask second = {.prompt = 230, .seed = 2, .max_new_tokens = 20};
  Recorder a, b;
  a.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_started()) harness.Push(Make(second), &b);
  };
  harness.Push(Make(first), &a);
  ASSERT_TRUE(a.Wait() && b.Wait());
  ExpectSame(a, *Alone(first));
  ExpectSame(b, *Alone(second));
}

TEST_P(EngineParking, ThePriorityDecidesWhoGivesWay) {
  EngineHarness harness(Options());
  harness.Start();
  std::vector<Recorder> recorders(2);
  std::vector<std::string> ends;
  SequenceRequest unimportant = Make({.prompt = 100, .seed = 1, .max_new_tokens = 300});
  unimportant.priority = 1;
  recorders[0].on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_started()) {
      harness.Push(Make({.prompt = 100, .seed = 2, .max_new_tokens = 300}), &recorders[1]);
    }
    if (event.has_finished()) ends.emplace_back("unimportant");
  };
  recorders[1].on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_finished()) ends.emplace_back("important");
  };
  harness.Push(unimportant, &recorders[0]);
  for (Recorder& recorder : recorders) ASSERT_TRUE(recorder.Wait());
  EXPECT_THAT(ends, ::testing::ElementsAre("important", "unimportant"));
  EXPECT_GT(Preemptions(harness), 0u);
}

TEST_P(EngineParking, AParkedSequenceCanBeCancelled) {
  EngineHarness harness(Options());
  std::shared_ptr<Submission> submission;
  harness.link().observer = [&](const SessionRequest& request, const SessionReply&) {
    if (!request.park.empty()) harness.queue().Cancel(*submission, CloseReason::kCancelled);
  };
  harness.Start();
  Recorder first, second;
  first.on_event = [&](const v1::GenerateResponse& event) {
    if (!event.has_started()) return;
    submission = harness.Push(Make({.prompt = 100, .seed = 2, .max_new_tokens = 330}), &second);
  };
  harness.Push(Make({.prompt = 100, .seed = 1, .max_new_tokens = 330}), &first);
  ASSERT_TRUE(first.Wait() && second.Wait());
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_TRUE(absl::IsCancelled(second.status)) << second.status;
  EXPECT_GT(Preemptions(harness), 0u);
  EXPECT_TRUE(harness.PagesAreBack());
}

TEST_P(EngineParking, AClientThatDoesNotReadMakesRoomForThoseThatWait) {
  for (const bool by_place : {true, false}) {
    HarnessOptions options = Options();
    options.park_paused_after = absl::Milliseconds(1);
    if (by_place) options.max_batch = 1;
    EngineHarness harness(options);
    harness.Start();
    const Ask slow = {.prompt = 200, .seed = 1, .max_new_tokens = 150};
    const Ask next = {.prompt = 300, .seed = 2, .max_new_tokens = 20};
    Recorder first, second;
    std::shared_ptr<Submission> submission;
    absl::Notification pushed;
    first.on_event = [&, begun = false](const v1::GenerateResponse& event) mutable {
      if (!event.has_chunk() || std::exchange(begun, true)) return;
      pushed.WaitForNotification();
      harness.queue().Pause(*submission);
      harness.Push(Make(next), &second);
    };
    submission = harness.Push(Make(slow), &first);
    pushed.Notify();
    ASSERT_TRUE(second.Wait());
    ExpectSame(second, *Alone(next));
    EXPECT_EQ(Preemptions(harness), 0u);  // the manager had no part in it
    EXPECT_EQ(harness.engine().counters().parked, 1u);
    harness.queue().Continue(*submission);
    ASSERT_TRUE(first.Wait());
    ExpectSame(first, *Alone(slow));
  }
}

TEST_P(EngineParking, AClientThatDoesNotReadMakesRoomForParkedSequences) {
  HarnessOptions options = Options();
  options.park_paused_after = absl::Milliseconds(1);
  EngineHarness harness(options);
  harness.Start();
  // The second one runs beside the first until it finds no page, and is parked then.
  const Ask slow = {.prompt = 200, .seed = 1, .max_new_tokens = 150};
  const Ask next = {.prompt = 100, .seed = 2, .max_new_tokens = 330};
  Recorder first, second;
  std::shared_ptr<Submission> submission;
  absl::Notification pushed;
  second.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_started()) harness.queue().Pause(*submission);
  };
  first.on_event = [&, begun = false](const v1::GenerateResponse& event) mutable {
    if (!event.has_chunk() || std::exchange(begun, true)) return;
    pushed.WaitForNotification();
    harness.Push(Make(next), &second);
  };
  submission = harness.Push(Make(slow), &first);
  pushed.Notify();
  ASSERT_TRUE(second.Wait());
  ExpectSame(second, *Alone(next));
  EXPECT_EQ(Preemptions(harness), 1u);  // no request waited, so the second was asked back first
  harness.queue().Continue(*submission);
  ASSERT_TRUE(first.Wait());
  ExpectSame(first, *Alone(slow));
}

TEST_P(EngineParking, AnotherWorkerComputesAParkedSequenceAgain) {
  EngineHarness harness(Options());
  const Ask ask = {.prompt = 100, .seed = 2, .max_new_tokens = 250};
  LostSequence lost = LoseWhileParked(harness, ask, /*swapped=*/false);
  harness.Start();
  const auto rest = harness.Run(lost.resume);
  ASSERT_TRUE(rest->status.ok()) << rest->status;
  lost.tokens.insert(lost.tokens.end(), rest->tokens.begin(), rest->tokens.end());
  EXPECT_EQ(lost.tokens, Alone(ask)->tokens);
}

}  // namespace
}  // namespace folio::worker::testing
