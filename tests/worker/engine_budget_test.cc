// An operator lowers the budget of a sequence while the step loop runs it: the plans come one after
// another, beside the steps, and no token is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "services/cache/inspector.h"
#include "services/cache/steering.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

constexpr uint32_t kBudget = 224, kLower = 96;
constexpr size_t kLoweredAt = 60, kParkedAt = 75, kTokens = 160;

// The depth of the device, the lag of the link, and whether evictions are synchronous.
class EngineBudget : public ::testing::TestWithParam<std::tuple<int, uint32_t, bool>> {
 protected:
  HarnessOptions Options(uint32_t swap_slots = 0) const {
    HarnessOptions options;
    std::tie(options.depth, options.lag, std::ignore) = GetParam();
    options.num_pages = 120;
    options.token_budget = {.alone = 32, .beside_decodes = 32};
    options.admission = cache::Admission::kOptimistic;
    options.swap_slots = swap_slots;
    return options;
  }
  Ask Asking(const std::string& policy, uint32_t prompt = 100) const {
    return {.prompt = prompt,
            .seed = 3,
            .max_new_tokens = kTokens,
            .policy = policy,
            .budget = kBudget,
            .synchronous = std::get<bool>(GetParam()),
            .temperature = 1};
  }
  // Runs the request, with its budget lowered and perhaps the sequence parked on the way.
  static std::unique_ptr<Recorder> Run(EngineHarness& harness, const Ask& ask, bool lower,
                                       bool park = false) {
    harness.link().observer = [&](const SessionRequest&, const SessionReply&) {
      harness.ScribbleOnFreePages();
      ASSERT_EQ(cache::Inspector(harness.coordinator()).CheckInvariants(), absl::OkStatus());
    };
    harness.Start();
    auto recorder = std::make_unique<Recorder>();
    size_t seen = 0;
    SequenceId id;
    recorder->on_event = [&](const v1::GenerateResponse& event) {
      if (event.has_started()) id = SequenceId(event.started().sequence_id());
      const size_t before = seen;
      seen += static_cast<size_t>(event.chunk().tokens_size());
      cache::Steering steering(harness.coordinator());
      if (lower && before < kLoweredAt && seen >= kLoweredAt) {
        const auto lowered = steering.LowerBudget(id, TokenCount(kLower));
        EXPECT_TRUE(lowered.ok()) << lowered.status();
      }
      if (park && before < kParkedAt && seen >= kParkedAt) {
        EXPECT_TRUE(steering.Park(id).ok());
      }
    };
    harness.Push(Make(ask), recorder.get());
    EXPECT_TRUE(recorder->Wait());
    EXPECT_TRUE(recorder->status.ok()) << recorder->status;
    EXPECT_TRUE(harness.PagesAreBack());
    return recorder;
  }
  static void ExpectCameDown(const Recorder& recorder) {
    EXPECT_EQ(recorder.tokens.size(), kTokens);
    EXPECT_LT(recorder.finished.cache().resident_tokens(), kLower + 2 * kPageTokens);
  }
};

INSTANTIATE_TEST_SUITE_P(All, EngineBudget,
                         ::testing::Combine(::testing::Values(0, 1), ::testing::Values(0U, 2U),
                                            ::testing::Bool()));

TEST_P(EngineBudget, EveryPolicyComesDown) {
  for (const char* policy :
       {"paged_eviction", "streaming_llm", "key_diff", "snap_kv:window=16",
        "query_diff:window=16,pool=3", "kv_crush:key_diff", "kv_crush:paged_eviction", "random"}) {
    SCOPED_TRACE(policy);
    EngineHarness unhindered(Options()), harness(Options());
    const auto expected = Run(unhindered, Asking(policy), /*lower=*/false);
    const auto lowered = Run(harness, Asking(policy), /*lower=*/true);
    ExpectCameDown(*lowered);
    EXPECT_GT(expected->finished.cache().resident_tokens(), kLower + 2 * kPageTokens);
    // The order changes nothing that was said before it.
    for (size_t token = 0; token < kLoweredAt; ++token) {
      ASSERT_EQ(lowered->tokens[token], expected->tokens[token]) << token;
    }
  }
}

TEST_P(EngineBudget, ACompactedPromptComesDownFurther) {
  EngineHarness harness(Options());
  ExpectCameDown(*Run(harness, Asking(kPaged, 300), /*lower=*/true));
}

TEST_P(EngineBudget, AParkedSequenceComesDownAgain) {
  for (const uint32_t swap_slots : {0U, 120U}) {
    for (const uint32_t prompt : {100U, 300U}) {
      SCOPED_TRACE(::testing::Message() << prompt << " tokens, " << swap_slots << " slots");
      EngineHarness harness(Options(swap_slots));
      const auto parked = Run(harness, Asking(kPaged, prompt), /*lower=*/true, /*park=*/true);
      ExpectCameDown(*parked);
      EXPECT_EQ(harness.engine().counters().preemptions, 1U);
    }
  }
}

}  // namespace
}  // namespace folio::worker::testing
