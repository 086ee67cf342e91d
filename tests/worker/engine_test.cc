// A sequence's result depends on its request alone. It does not depend on the sequences that run
// beside it, on the chunks of its prompt, or on how far the device runs behind the host.
#include "services/worker/engine/engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "services/cache/inspector.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

void ExpectEqual(const Recorder& a, const Recorder& b, const std::string& what) {
  EXPECT_TRUE(a.status.ok()) << what << ": " << a.status;
  EXPECT_TRUE(b.status.ok()) << what << ": " << b.status;
  EXPECT_EQ(a.tokens, b.tokens) << what;
  EXPECT_EQ(a.logprobs, b.logprobs) << what;  // to the bit
  EXPECT_EQ(a.evictions, b.evictions) << what;
  EXPECT_EQ(a.finished.cache().evicted_tokens(), b.finished.cache().evicted_tokens()) << what;
}

std::vector<Ask> MixedAsks(bool synchronous) {
  std::vector<Ask> asks;
  const std::vector<std::string> policies = {kFull,
                                             kPaged,
                                             kStreaming,
                                             "key_diff",
                                             "inverse_key_norm",
                                             "snap_kv:window=9",
                                             "random",
                                             "kv_crush:inverse_key_norm,share=0.34,anchor=ones",
                                             "query_diff:window=9,share=0.4"};
  for (uint64_t i = 0; i < policies.size(); ++i) {
    const std::string& policy = policies[i];
    asks.push_back({.prompt = static_cast<uint32_t>(7 + 41 * i),
                    .seed = 100 + i,
                    .max_new_tokens = static_cast<uint32_t>(30 + 9 * i),
                    .policy = policy,
                    .budget = policy == kFull ? 0 : static_cast<uint32_t>(48 + 16 * (i % 4)),
                    // Layers fill their pages at different tokens.
                    .pyramid = i == 1 || i == 5,
                    .synchronous = synchronous,
                    .temperature = i % 2 == 0 ? 0.0f : 0.9f});
  }
  return asks;
}

struct Device {
  int depth;
  uint32_t lag;
};

class EngineOnDevice : public ::testing::TestWithParam<Device> {
 protected:
  HarnessOptions Options() const {
    HarnessOptions options;
    options.depth = GetParam().depth;
    options.lag = GetParam().lag;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, EngineOnDevice,
                         ::testing::Values(Device{0, 0}, Device{0, 3}, Device{1, 0}, Device{1, 3}),
                         [](const auto& info) {
                           return "Depth" + std::to_string(info.param.depth) + "Lag" +
                                  std::to_string(info.param.lag);
                         });

// Nine requests at once against each alone on a device that is never behind.
TEST_P(EngineOnDevice, MixedPoliciesInCompanyEqualAlone) {
  const std::vector<Ask> asks = MixedAsks(/*synchronous=*/true);
  EngineHarness alone;
  alone.Start();
  EngineHarness together(Options());
  std::vector<std::unique_ptr<Recorder>> recorders;
  together.Start();
  for (const Ask& ask : asks) {
    recorders.push_back(std::make_unique<Recorder>());
    together.Push(Make(ask), recorders.back().get());
  }
  bool evicted = false;
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSERT_TRUE(recorders[i]->Wait());
    const auto expected = alone.Run(Make(asks[i]));
    EXPECT_EQ(expected->tokens.size(), asks[i].max_new_tokens);
    ExpectEqual(*recorders[i], *expected, "request " + std::to_string(i));
    evicted |= !expected->evictions.empty();
  }
  EXPECT_TRUE(evicted);
}

// Nothing is given back that a step under way still reads or writes.
TEST_P(EngineOnDevice, UsesNoPageThatItGaveBack) {
  EngineHarness alone;
  alone.Start();
  HarnessOptions options = Options();
  options.num_pages = 600;
  EngineHarness harness(options);
  harness.link().observer = [&](const SessionRequest& request, const SessionReply&) {
    if (request.ack.size() + request.close.size() > 0) harness.ScribbleOnFreePages();
  };
  harness.Start();
  const std::vector<Ask> asks = MixedAsks(/*synchronous=*/true);
  std::vector<std::unique_ptr<Recorder>> recorders;
  for (const Ask& ask : asks) {
    recorders.push_back(std::make_unique<Recorder>());
    harness.Push(Make(ask), recorders.back().get());
  }
  Ask pipelined = asks[7];
  pipelined.synchronous = false;
  Recorder other, cut;
  harness.Push(Make(pipelined), &other);
  // Given up when the next step is on its way already.
  std::shared_ptr<Submission> cut_submission = std::make_shared<Submission>();
  cut_submission->request = Make({.prompt = 70, .seed = 77, .max_new_tokens = 100});
  cut_submission->sink = &cut;
  cut.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_chunk() && cut.tokens.size() == 9) {
      harness.queue().Cancel(*cut_submission, CloseReason::kCancelled);
    }
  };
  ASSERT_TRUE(harness.queue().Push(cut_submission).ok());
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSERT_TRUE(recorders[i]->Wait());
    ExpectEqual(*recorders[i], *alone.Run(Make(asks[i])), "request " + std::to_string(i));
  }
  ASSERT_TRUE(other.Wait());
  EXPECT_TRUE(other.status.ok()) << other.status;
  EXPECT_GT(other.evictions.size(), 2u);
  ASSERT_TRUE(cut.Wait());
  EXPECT_TRUE(absl::IsCancelled(cut.status)) << cut.status;
}

// The budget may be passed by at most two pages per layer, in either mode, however slow the
// manager is.
TEST_P(EngineOnDevice, HoldsAtMostTwoPagesOverTheBudget) {
  for (const bool synchronous : {true, false}) {
    EngineHarness harness(Options());
    const uint32_t layers = TinyLoadedModel().config().num_layers;
    uint64_t checks = 0, tight = 0;
    harness.link().observer = [&](const SessionRequest&, const SessionReply&) {
      for (const cache::SequenceInfo& info : cache::Inspector(harness.coordinator()).sequences()) {
        if (info.cache.budget.value() == 0 || info.state == cache::SequenceState::kPrefill)
          continue;
        if (info.logical_length <= info.prompt_tokens) continue;  // the compaction is under way
        uint32_t bound = 0;
        for (uint32_t layer = 0; layer < layers; ++layer) {
          bound += info.cache.layer_budget(layer).value() / kPageTokens + 2;
        }
        EXPECT_LE(info.held_pages.value(), bound) << info.id;
        EXPECT_LE(info.resident.value(), info.cache.budget.value() + 2 * kPageTokens) << info.id;
        ++checks;
        tight += info.held_pages.value() == bound ? 1 : 0;
      }
      EXPECT_TRUE(cache::Inspector(harness.coordinator()).CheckInvariants().ok());
    };
    harness.Start();
    std::vector<std::unique_ptr<Recorder>> recorders;
    for (const Ask& ask : MixedAsks(synchronous)) {
      recorders.push_back(std::make_unique<Recorder>());
      harness.Push(Make(ask), recorders.back().get());
    }
    for (const auto& recorder : recorders) {
      ASSERT_TRUE(recorder->Wait());
      EXPECT_TRUE(recorder->status.ok()) << recorder->status;
    }
    EXPECT_GT(checks, 100u);
    EXPECT_GT(tight, 0u);
  }
}

TEST_P(EngineOnDevice, PipelinedAnswersAreWholeAndRepeatAlone) {
  const Ask ask = {.prompt = 90,
                   .seed = 5,
                   .max_new_tokens = 100,
                   .policy = kPaged,
                   .budget = 64,
                   .synchronous = false};
  EngineHarness first(Options()), second(Options());
  first.Start();
  second.Start();
  const auto a = first.Run(Make(ask));
  const auto b = second.Run(Make(ask));
  EXPECT_EQ(a->tokens.size(), 100u);
  EXPECT_EQ(a->finished.cache().plans(), a->evictions.size());
  EXPECT_GE(a->evictions.size(), 6u);
  EXPECT_EQ(a->finished.cache().resident_tokens(), 90 + 99 - a->finished.cache().evicted_tokens());
  ExpectEqual(*a, *b, "repeated");
}

// A budget that holds the whole sequence evicts nothing under any policy.
TEST_P(EngineOnDevice, ABudgetOfTheWholeLengthLosesNothing) {
  EngineHarness harness(Options());
  harness.Start();
  const Ask full = {.prompt = 60, .seed = 9, .max_new_tokens = 69, .temperature = 1};
  const auto expected = harness.Run(Make(full));
  for (const char* policy :
       {kPaged, kStreaming, "inverse_key_norm", "key_diff", "snap_kv:window=16", "random",
        "query_diff", "kv_crush", "kv_crush:key_diff,share=0.5,anchor=ones"}) {
    Ask ask = full;
    ask.policy = policy;
    ask.budget = 128;  // 60 and 68 that are fed
    const auto got = harness.Run(Make(ask));
    ExpectEqual(*got, *expected, policy);
    EXPECT_EQ(got->finished.cache().plans(), 0u) << policy;
    // With two pages less something goes.
    ask.budget = 96;
    EXPECT_GT(harness.Run(Make(ask))->finished.cache().plans(), 0u) << policy;
  }
}

// With all its budget by attention query_diff is snap_kv, except in its decode drops. Its scores
// take another way, by the board's second channel.
TEST_P(EngineOnDevice, QueryDiffOfAttentionAloneCompactsAsSnapKvDoes) {
  EngineHarness harness(Options());
  harness.Start();
  Ask ask = {.prompt = 90, .max_new_tokens = 3, .policy = "snap_kv:window=9,pool=5", .budget = 48};
  const auto expected = harness.Run(Make(ask));
  EXPECT_EQ(expected->finished.cache().plans(), 1u);
  ask.policy = "query_diff:share=1,window=9,pool=5";
  ExpectEqual(*harness.Run(Make(ask)), *expected, "by attention");
  ask.policy = "query_diff:share=0,window=9,pool=5";
  EXPECT_NE(harness.Run(Make(ask))->evictions, expected->evictions);
}

// Scoring what was generated gives the same log-probabilities by the same evictions.
TEST_P(EngineOnDevice, ScoreRepeatsGenerate) {
  for (const char* policy : {kFull, kPaged, kStreaming, "key_diff", "snap_kv:window=20",
                             "kv_crush:share=0.34", "query_diff"}) {
    EngineHarness harness(Options());
    harness.Start();
    const Ask ask = {.prompt = 60,
                     .seed = 8,
                     .max_new_tokens = 70,
                     .policy = policy,
                     .budget = std::string(policy) == kFull ? 0u : 48u,
                     .pyramid = absl::StrContains(policy, "diff"),
                     .temperature = 1};
    const auto generated = harness.Run(Make(ask));
    SequenceRequest score = Make(ask);
    for (const uint32_t token : generated->tokens) score.targets.push_back(TokenId(token));
    const auto scored = harness.Run(std::move(score));
    ExpectEqual(*scored, *generated, "scored");
  }
}

TEST_P(EngineOnDevice, ChunksDoNotShow) {
  std::unique_ptr<Recorder> expected;
  for (const uint32_t chunk : {512u, 16u, 37u, 100u}) {
    HarnessOptions options = Options();
    options.token_budget.alone = chunk;
    EngineHarness harness(options);
    harness.Start();
    auto got = harness.Run(
        Make({.prompt = 230, .seed = 3, .max_new_tokens = 50, .policy = kPaged, .budget = 96}));
    if (expected == nullptr) {
      expected = std::move(got);
    } else {
      ExpectEqual(*got, *expected, "chunks of " + std::to_string(chunk));
    }
  }
}

}  // namespace
}  // namespace folio::worker::testing
