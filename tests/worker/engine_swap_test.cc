// A pool that runs dry with swap memory beside it: sequences give their pages back and go on where
// they were. They have the same tokens, log-probabilities and evictions as if they had been alone,
// and no token is computed twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "services/cache/inspector.h"
#include "tests/worker/engine_harness.h"
#include "tests/worker/lost_while_parked.h"

namespace folio::worker::testing {
namespace {

constexpr uint64_t kProbe = 1;  // prompt tokens with which EngineHarness::Start waits for the loop

// What went over the link.
struct Traffic {
  std::atomic<int> parked = 0, swapped = 0, back = 0, restarted = 0, plans_again = 0;

  void Note(const SessionRequest& request, const SessionReply& reply) {
    for (const ParkSequence& park : request.park) ++(park.swapped ? swapped : parked);
    for (const UnparkResult& one : reply.unparked) {
      if (!one.status.ok()) continue;
      ++(one.swapped.empty() ? restarted : back);
      for (const Plan& plan : reply.plans) plans_again += plan.sequence == one.sequence ? 1 : 0;
    }
  }
};

class EngineSwap : public ::testing::TestWithParam<int> {
 protected:
  // 2 layers of 30 pages of 16 tokens: 480 tokens.
  HarnessOptions Options(uint32_t swap_slots = 120) const {
    HarnessOptions options;
    options.depth = GetParam();
    options.num_pages = 60;
    options.token_budget = {.alone = 32, .beside_decodes = 32};
    options.admission = cache::Admission::kOptimistic;
    options.orphan_ttl = absl::Hours(1);
    options.swap_slots = swap_slots;
    return options;
  }

  static std::unique_ptr<Recorder> Alone(const Ask& ask) {
    EngineHarness harness;
    harness.Start();
    return harness.Run(Make(ask));
  }
  // Runs them together over free pages that others write, and compares each with itself alone.
  // Returns how many tokens of prompts were computed.
  static uint64_t RunTogether(EngineHarness& harness, const std::vector<Ask>& asks,
                              Traffic* traffic) {
    // The step loop waits in it until all have asked. One that asks late may have to give its pages
    // back in its prompt, which is computed again.
    const auto asked = std::make_shared<absl::Notification>();
    harness.link().observer = [&harness, traffic, asked](const SessionRequest& request,
                                                         const SessionReply& reply) {
      for (const OpenSequence& open : request.open) {
        if (open.prompt.size() > kProbe) asked->WaitForNotification();
      }
      harness.ScribbleOnFreePages();
      traffic->Note(request, reply);
    };
    harness.Start();
    std::vector<Recorder> recorders(asks.size());
    for (size_t i = 0; i < asks.size(); ++i) harness.Push(Make(asks[i]), &recorders[i]);
    asked->Notify();
    for (size_t i = 0; i < asks.size(); ++i) {
      EXPECT_TRUE(recorders[i].Wait());
      const auto alone = Alone(asks[i]);
      EXPECT_TRUE(recorders[i].status.ok()) << recorders[i].status;
      EXPECT_EQ(recorders[i].tokens, alone->tokens);
      EXPECT_EQ(recorders[i].logprobs, alone->logprobs);
      EXPECT_EQ(recorders[i].evictions, alone->evictions);
      EXPECT_EQ(recorders[i].finished.cache().plans(), alone->finished.cache().plans());
      EXPECT_EQ(recorders[i].finished.cache().evicted_pages(),
                alone->finished.cache().evicted_pages());
    }
    EXPECT_TRUE(harness.PagesAreBack());
    return harness.engine().counters().prompt_tokens - kProbe;
  }
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineSwap, ::testing::Values(0, 1));

std::vector<Ask> Crowd() {
  std::vector<Ask> asks;
  // Together they need twice the pool.
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    asks.push_back({.prompt = 60, .seed = seed, .max_new_tokens = 140, .temperature = 1});
  }
  return asks;
}

// One that needs more and more pages, and three that stay within their budgets.
std::vector<Ask> Evicting(const std::string& policy, uint32_t first_prompt) {
  std::vector<Ask> asks = {{.prompt = first_prompt, .seed = 9, .max_new_tokens = 260}};
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    asks.push_back({.prompt = 150,
                    .seed = seed,
                    .max_new_tokens = 200 + 10 * static_cast<uint32_t>(seed),
                    .policy = policy,
                    .budget = 96});
  }
  return asks;
}

TEST_P(EngineSwap, NothingIsComputedAgain) {
  EngineHarness harness(Options());
  Traffic traffic;
  EXPECT_EQ(RunTogether(harness, Crowd(), &traffic), 5 * 60U);
  EXPECT_GT(traffic.swapped, 0);
  EXPECT_EQ(traffic.back, traffic.swapped);
  EXPECT_EQ(traffic.parked, 0);
}

TEST_P(EngineSwap, WithoutRoomItIsComputedAgain) {
  EngineHarness harness(Options(/*swap_slots=*/16));
  Traffic traffic;
  EXPECT_GT(RunTogether(harness, Crowd(), &traffic), 5 * 60U);
  EXPECT_GT(traffic.parked, 0);
}

TEST_P(EngineSwap, EvictionsContinue) {
  Traffic traffic;
  for (const char* policy :
       {"paged_eviction", "key_diff", "snap_kv:window=16", "query_diff:window=16,pool=3",
        "kv_crush:paged_eviction", "random:seed=3", "streaming_llm", "value_norm"}) {
    SCOPED_TRACE(policy);
    EngineHarness harness(Options());
    RunTogether(harness, Evicting(policy, 100), &traffic);
  }
  EXPECT_GT(traffic.swapped, 0);
}

// Replies are late, so that a plan may come for a sequence that has stopped to be swapped. The
// first sequence needs pages at another moment each time. How late a reply is differs from machine
// to machine, so this goes on until it happened.
TEST_P(EngineSwap, APlanThatCameTooLateIsGivenAgain) {
  Traffic traffic;
  for (uint32_t round = 0; round < 16 || (traffic.plans_again == 0 && round < 400); ++round) {
    const uint32_t prompt = 100 + round % 64;
    SCOPED_TRACE(prompt);
    HarnessOptions options = Options();
    options.lag = 3;
    EngineHarness harness(options);
    RunTogether(harness, Evicting(kPaged, prompt), &traffic);
  }
  EXPECT_GT(traffic.plans_again, 0) << traffic.swapped << " times swapped";
}

// The worker that swapped a sequence out is lost, then the one that swaps it in. The third goes on.
TEST_P(EngineSwap, OtherWorkersGoOn) {
  for (const bool lost_on_the_way_back : {false, true}) {
    SCOPED_TRACE(lost_on_the_way_back);
    EngineHarness harness(Options());
    const Ask ask = {.prompt = 100, .seed = 2, .max_new_tokens = 250};
    LostSequence lost = LoseWhileParked(harness, ask, /*swapped=*/true);
    if (lost_on_the_way_back) {
      harness.link().observer = [&](const SessionRequest&, const SessionReply& reply) {
        if (!reply.claimed.empty()) harness.link().Break(absl::UnavailableError("killed"));
      };
      harness.Start();
      EXPECT_TRUE(absl::IsUnavailable(harness.Run(lost.resume)->status));
      EXPECT_FALSE(harness.Join().ok());
      harness.NextWorker();
    }
    Traffic traffic;
    harness.link().observer = [&](const SessionRequest&, const SessionReply& reply) {
      harness.ScribbleOnFreePages();
      for (const ClaimResult& claim : reply.claimed) {
        traffic.back += !claim.layers.empty() && !claim.layers[0].slots.empty() ? 1 : 0;
      }
    };
    harness.Start();
    const auto rest = harness.Run(lost.resume);
    ASSERT_TRUE(rest->status.ok()) << rest->status;
    EXPECT_EQ(traffic.back, 1);
    EXPECT_EQ(harness.engine().counters().prompt_tokens, kProbe);
    lost.tokens.insert(lost.tokens.end(), rest->tokens.begin(), rest->tokens.end());
    EXPECT_EQ(lost.tokens, Alone(ask)->tokens);
  }
}

TEST_P(EngineSwap, ASequenceThatIsSwappedCanBeCancelled) {
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
  EXPECT_TRUE(harness.PagesAreBack());
  EXPECT_EQ(cache::Inspector(harness.coordinator()).pool().free_swap_slots, 120U);
}

}  // namespace
}  // namespace folio::worker::testing
