// Prompts that are compacted while they are prefilled, through the real step loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kToken[] = "0123456789abcdef";

class EngineStreamed : public ::testing::TestWithParam<int> {
 protected:
  // 2 layers of 20 pages of 16 tokens: 320 tokens.
  HarnessOptions Options(uint32_t chunk = 32) const {
    HarnessOptions options;
    options.depth = GetParam();
    options.num_pages = 40;
    options.token_budget = {.alone = chunk, .beside_decodes = chunk};
    options.admission = cache::Admission::kOptimistic;
    options.orphan_ttl = absl::Hours(1);
    return options;
  }
  static std::unique_ptr<Recorder> Run(const HarnessOptions& options, const Ask& ask) {
    EngineHarness harness(options);
    harness.link().observer = [&](const SessionRequest&, const SessionReply&) {
      harness.ScribbleOnFreePages();
    };
    harness.Start();
    return harness.Run(Make(ask));
  }
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineStreamed, ::testing::Values(0, 1));

constexpr const char* kPolicies[] = {"paged_eviction",
                                     "inverse_key_norm",
                                     "value_norm",
                                     "key_diff",
                                     "query_diff:window=16,pool=3",
                                     "streaming_llm",
                                     "random:seed=3",
                                     "kv_crush:paged_eviction",
                                     "kv_crush:key_diff"};

void ExpectSame(const Recorder& a, const Recorder& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.logprobs, b.logprobs);
  EXPECT_EQ(a.evictions, b.evictions);
}

TEST_P(EngineStreamed, APromptOfManyPoolsStaysWithinBudgetAndStride) {
  for (const std::string policy : kPolicies) {
    SCOPED_TRACE(policy);
    const Ask ask = {
        .prompt = 1500, .max_new_tokens = 30, .policy = policy, .budget = 96, .stride = 64};
    const auto got = Run(Options(), ask);
    ASSERT_TRUE(got->status.ok()) << got->status;
    EXPECT_EQ(got->tokens.size(), 30U);
    EXPECT_LE(got->finished.cache().peak_resident_tokens(), 96 + 64);
    EXPECT_EQ(got->started.cache().compaction(), v1::COMPACTION_STREAMED);
    std::vector<uint32_t> at;
    for (const v1::EvictionEvent& event : got->eviction_events) {
      if (event.step() >= 0) continue;
      at.push_back(event.prompt_tokens());
      for (const auto& layer : event.layers()) {
        const std::vector<uint32_t> kept(layer.kept().begin(), layer.kept().end());
        ASSERT_EQ(kept.size(), 96U);
        EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
        // Sink and recent tokens, by their positions in the text.
        EXPECT_EQ(kept[15], 15U);
        EXPECT_EQ(kept[80], event.prompt_tokens() - 16);
      }
    }
    std::vector<uint32_t> expected;
    for (uint32_t stop = 128; stop < 1500; stop += 64) expected.push_back(stop);
    // query_diff's window of 16 needs the last queries in one piece.
    expected.push_back(1500);
    EXPECT_THAT(at, ElementsAreArray(expected));
  }
}

TEST_P(EngineStreamed, ChunksDoNotMatter) {
  for (const std::string policy : kPolicies) {
    SCOPED_TRACE(policy);
    const Ask ask = {
        .prompt = 700, .max_new_tokens = 40, .policy = policy, .budget = 96, .stride = 80};
    const auto small = Run(Options(32), ask);
    ExpectSame(*small, *Run(Options(100), ask));
    HarnessOptions roomy;
    roomy.token_budget = {.alone = 512, .beside_decodes = 512};
    ExpectSame(*small, *Run(roomy, ask));
  }
}

// A stride that the prompt does not reach leaves it whole.
TEST_P(EngineStreamed, AStrideLongerThanThePromptIsTheWholeCompaction) {
  for (const std::string policy : kPolicies) {
    SCOPED_TRACE(policy);
    Ask ask = {.prompt = 250, .max_new_tokens = 40, .policy = policy, .budget = 96};
    const auto whole = Run(Options(), ask);
    ask.stride = 256;
    ExpectSame(*whole, *Run(Options(), ask));
  }
}

// The numbers are those of the whole prompt where nothing has gone before.
TEST_P(EngineStreamed, ForgettingBeforeTheEndChangesTheAnswer) {
  Ask ask = {.prompt = 250, .max_new_tokens = 40, .policy = "key_diff", .budget = 96};
  const auto whole = Run(Options(), ask);
  ask.stride = 64;
  const auto streamed = Run(Options(), ask);
  ASSERT_TRUE(whole->status.ok() && streamed->status.ok());
  EXPECT_NE(whole->logprobs, streamed->logprobs);
}

TEST_P(EngineStreamed, SequencesThatGaveTheirPagesBackAreTheSame) {
  std::vector<Ask> asks;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    asks.push_back({.prompt = 400,
                    .seed = seed,
                    .max_new_tokens = 60,
                    .policy = kPolicies[seed],
                    .budget = 96,
                    .stride = 64});
  }
  EngineHarness harness(Options());
  harness.link().observer = [&](const SessionRequest&, const SessionReply&) {
    harness.ScribbleOnFreePages();
  };
  harness.Start();
  // It takes the room of the others while they are in their prompts.
  const Ask full = {.prompt = 40, .seed = 9, .max_new_tokens = 200};
  std::vector<Recorder> recorders(asks.size());
  Recorder large;
  harness.Push(Make(full), &large);
  for (size_t i = 0; i < asks.size(); ++i) harness.Push(Make(asks[i]), &recorders[i]);
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSERT_TRUE(recorders[i].Wait());
    ExpectSame(recorders[i], *Run(Options(), asks[i]));
  }
  ASSERT_TRUE(large.Wait());
  EXPECT_TRUE(large.status.ok());
}

TEST_P(EngineStreamed, AnotherWorkerContinuesInThePrompt) {
  const Ask ask = {.prompt = 400,
                   .max_new_tokens = 30,
                   .policy = "query_diff:window=16,pool=3",
                   .budget = 96,
                   .stride = 64};
  const auto request = [&] {
    SequenceRequest made = Make(ask);
    made.report_evictions = false;
    made.resume_token = kToken;
    return made;
  };
  std::vector<uint32_t> whole;
  {
    EngineHarness harness(Options());
    harness.Start();
    whole = harness.Run(request())->tokens;
    ASSERT_EQ(whole.size(), 30U);
  }
  for (int commits = 1; commits < 20; ++commits) {
    SCOPED_TRACE(commits);
    EngineHarness harness(Options());
    Recorder client;
    harness.link().observer = [&harness, commits, seen = 0](const SessionRequest& sent,
                                                            const SessionReply&) mutable {
      seen += sent.commit.size();
      if (seen > commits) harness.link().Break(absl::UnavailableError("killed"));
    };
    harness.Start();
    harness.Push(request(), &client);
    ASSERT_TRUE(client.Wait());
    EXPECT_FALSE(harness.Join().ok());
    harness.NextWorker();
    harness.Start();
    SequenceRequest again;
    again.resume_token = kToken;
    again.resume = {SequenceId(client.started.sequence_id()), {}};
    for (const uint32_t id : client.tokens) again.resume->received.emplace_back(id);
    const auto rest = harness.Run(std::move(again));
    ASSERT_TRUE(rest->status.ok()) << rest->status;
    std::vector<uint32_t> all = client.tokens;
    all.insert(all.end(), rest->tokens.begin(), rest->tokens.end());
    EXPECT_EQ(all, whole);
  }
}

}  // namespace
}  // namespace folio::worker::testing
