// How steps are made up, what is told about evictions, and what the manager knows when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "services/cache/inspector.h"
#include "services/wire/session.h"
#include "services/wire/session_limits.h"
#include "services/worker/engine/engine.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::ElementsAre;

// The counts that operators and the oracle go by.
TEST(EngineEvictions, HappenWhenThePageFills) {
  EngineHarness harness;
  harness.Start();
  const auto got = harness.Run(
      Make({.prompt = 36, .seed = 2, .max_new_tokens = 50, .policy = kPaged, .budget = 32}));
  ASSERT_TRUE(got->status.ok()) << got->status;
  std::vector<int> steps;
  for (const v1::EvictionEvent& event : got->eviction_events) {
    steps.push_back(event.step());
    ASSERT_EQ(event.layers_size(), 2);
    for (const auto& layer : event.layers()) {
      EXPECT_EQ(layer.kept_size(), event.step() < 0 ? 32 : 0);
      EXPECT_EQ(layer.dropped_block(), event.step() < 0 ? -1 : 1);  // the only candidate
    }
  }
  EXPECT_THAT(steps, ElementsAre(-1, 15, 31, 47));
  const v1::CacheStats& cache = got->finished.cache();
  EXPECT_EQ(cache.resident_tokens(), 36u + 49 - 4 - 3 * 16);
  EXPECT_EQ(cache.peak_resident_tokens(), 48u);
  EXPECT_EQ(cache.evicted_tokens(), 4u + 3 * 16);
  EXPECT_EQ(cache.plans(), 4u);
  EXPECT_EQ(cache.resident_bytes(), cache.resident_tokens() * 2u * 2 * 2 * 16 * 2);
  EXPECT_EQ(got->finished.usage().prompt_tokens(), 36u);
  EXPECT_EQ(got->finished.usage().generated_tokens(), 50u);
  EXPECT_LE(got->finished.usage().queue_seconds() + got->finished.usage().prefill_seconds(),
            got->finished.usage().time_to_first_token() + 1e-6);
}

class EngineGauge : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Depths, EngineGauge, ::testing::Values(0, 1));

TEST_P(EngineGauge, IsToldOfEachStepAndTurn) {
  HarnessOptions options;
  options.depth = GetParam();
  EngineHarness harness(options);
  harness.Start();
  const uint64_t before = harness.gauge().progress().steps_done;
  Recorder recorder;
  int in_flight = 0;
  recorder.on_event = [&](const v1::GenerateResponse& event) {
    // A device that runs behind has the next step already when the tokens of one are sent.
    if (event.has_chunk() && harness.gauge().in_flight().has_value()) ++in_flight;
  };
  harness.Push(Make({.prompt = 50, .max_new_tokens = 40}), &recorder);
  ASSERT_TRUE(recorder.Wait());
  const auto changes = [](const auto& wanted) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!wanted() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
    return wanted();
  };
  EXPECT_TRUE(changes([&] { return !harness.gauge().in_flight().has_value(); }));
  EXPECT_GE(harness.gauge().progress().steps_done, before + 40);
  EXPECT_EQ(in_flight > 0, GetParam() > 0);
  // The loop turns also while it has nothing to do.
  const uint64_t turns = harness.gauge().turns();
  EXPECT_TRUE(changes([&] { return harness.gauge().turns() > turns + 1; }));
}

// A long prompt is cut, and each step with one of its chunks has a token of the running stream.
TEST(EngineBatches, DecodesGoOnBesideAPrompt) {
  HarnessOptions options;
  options.token_budget = {.alone = 64, .beside_decodes = 16};
  EngineHarness harness(options);
  Recorder stream, prompt;
  int chunks = 0, alone = 0;
  harness.link().observer = [&](const SessionRequest& request, const SessionReply&) {
    bool chunk = false, token = false;
    for (const CommitTokens& commit : request.commit) {
      chunk |= commit.sequence.value() == prompt.started.sequence_id();
      token |= commit.sequence.value() == stream.started.sequence_id();
    }
    chunks += chunk ? 1 : 0;
    alone += chunk && !token ? 1 : 0;
  };
  harness.Start();
  harness.Push(Make({.prompt = 5, .max_new_tokens = 1900}), &stream);
  ASSERT_TRUE(stream.WaitForTokens(3));
  harness.Push(Make({.prompt = 400, .max_new_tokens = 1}), &prompt);
  ASSERT_TRUE(prompt.Wait());
  ASSERT_TRUE(stream.Wait());
  EXPECT_EQ(chunks, 25);
  EXPECT_EQ(alone, 0);
}

TEST(EngineBatches, RunsAtMostMaxBatchAndQueuesTheRest) {
  HarnessOptions options;
  options.max_batch = 2;
  EngineHarness harness(options);
  size_t most = 0;
  harness.link().observer = [&](const SessionRequest&, const SessionReply&) {
    most = std::max(most, cache::Inspector(harness.coordinator()).sequences().size());
  };
  harness.Start();
  std::vector<std::unique_ptr<Recorder>> recorders;
  for (uint64_t i = 0; i < 6; ++i) {
    recorders.push_back(std::make_unique<Recorder>());
    harness.Push(Make({.prompt = 20, .seed = i, .max_new_tokens = 30}), recorders.back().get());
  }
  for (const auto& recorder : recorders) {
    ASSERT_TRUE(recorder->Wait());
    EXPECT_TRUE(recorder->status.ok()) << recorder->status;
    EXPECT_EQ(recorder->tokens.size(), 30u);
  }
  EXPECT_EQ(most, 2u);
}

// Long prompts take all places that they may, and generate for long. A short request has its answer
// before any of them.
TEST(EngineBatches, AShortRequestDoesNotWaitForTheAnswersOfLongOnes) {
  HarnessOptions options;
  options.num_pages = 4096;
  options.max_batch = 8;
  options.token_budget = {.alone = 64, .beside_decodes = 16, .short_prompt = 16};
  EngineHarness harness(options);
  harness.Start();
  std::vector<std::unique_ptr<Recorder>> recorders;
  for (uint64_t i = 0; i < 8; ++i) {
    recorders.push_back(std::make_unique<Recorder>());
    harness.Push(Make({.prompt = 17, .seed = i, .max_new_tokens = 1900}), recorders.back().get());
  }
  ASSERT_TRUE(recorders.front()->WaitForTokens(3));
  Recorder chat;
  harness.Push(Make({.prompt = 16, .max_new_tokens = 5}), &chat);
  ASSERT_TRUE(chat.Wait());
  EXPECT_EQ(chat.tokens.size(), 5u);
  for (const auto& recorder : recorders) EXPECT_FALSE(recorder->ended());
  for (const auto& recorder : recorders) {
    ASSERT_TRUE(recorder->Wait());
    EXPECT_TRUE(recorder->status.ok()) << recorder->status;
  }
}

// However many requests come at once, no message to the manager is larger than it takes.
TEST(EngineBatches, OpensManyInSeveralMessages) {
  constexpr size_t kRequests = 300;
  EngineHarness harness({.max_batch = kRequests + 1});
  std::vector<size_t> opened;
  std::vector<uint64_t> tags;
  size_t bytes = 0;
  harness.link().observer = [&](const SessionRequest& request, const SessionReply&) {
    if (request.open.empty() || request.open[0].prompt.size() != 8) return;
    opened.push_back(request.open.size());
    for (const OpenSequence& open : request.open) tags.push_back(open.request_tag);
    const size_t size = wire::ToProto(request).ByteSizeLong();
    EXPECT_LE(size, wire::kOpenBatchBytes);
    bytes += size;
  };
  // Fields that the manager does not know, so that a small request is large.
  v1::CacheOptions cache;
  std::string junk(wire::kMaxCacheOptionsBytes - 100, 'x');
  cache.GetReflection()->MutableUnknownFields(&cache)->AddLengthDelimited(1000)->swap(junk);
  SequenceRequest request = Make({.prompt = 8, .max_new_tokens = 1});
  request.cache.bytes = cache.SerializeAsString();
  std::vector<Recorder> recorders(kRequests);
  // On the step loop's thread, so that it finds all of them at once.
  Recorder first;
  first.on_event = [&](const v1::GenerateResponse& event) {
    if (!event.has_started()) return;
    for (Recorder& recorder : recorders) harness.Push(request, &recorder);
  };
  harness.Start();
  harness.Push(Make({.prompt = 9}), &first);
  ASSERT_TRUE(first.Wait());
  for (Recorder& recorder : recorders) {
    ASSERT_TRUE(recorder.Wait());
    EXPECT_TRUE(recorder.status.ok()) << recorder.status;
  }
  EXPECT_GT(bytes, wire::kOpenBatchBytes);
  EXPECT_EQ(opened.size(), 2u);
  EXPECT_EQ(tags.size(), kRequests);
  EXPECT_TRUE(std::is_sorted(tags.begin(), tags.end()));
}

// A token is in the manager's record before a client sees it.
TEST(EngineRecord, IsAheadOfTheClient) {
  EngineHarness harness;
  std::map<uint64_t, uint32_t> sampled;  // by sequence id
  harness.link().observer = [&](const SessionRequest& request, const SessionReply&) {
    for (const CommitTokens& commit : request.commit) {
      sampled[commit.sequence.value()] += static_cast<uint32_t>(commit.sampled.size());
    }
  };
  Recorder recorder;
  uint64_t id = 0;
  uint32_t seen = 0;
  recorder.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_started()) id = event.started().sequence_id();
    if (!event.has_chunk()) return;
    seen += event.chunk().tokens_size();
    EXPECT_LE(seen, sampled[id]);
  };
  harness.Start();
  harness.Push(Make({.prompt = 40, .max_new_tokens = 60}), &recorder);
  ASSERT_TRUE(recorder.Wait());
  EXPECT_EQ(seen, 60u);
}

}  // namespace
}  // namespace folio::worker::testing
