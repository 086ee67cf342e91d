// What a sequence's result may depend on: the request alone. Not on the company it runs in, the
// chunks its prompt is cut into, or how far the device runs behind the host.
#include "services/worker/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine_rig.h"

namespace folio::worker::testing {
namespace {

using ::testing::ElementsAre;

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
  const Kind kinds[] = {Kind::kFull, Kind::kPaged, Kind::kStreaming};
  for (uint64_t i = 0; i < 9; ++i) {
    const Kind kind = kinds[i % 3];
    asks.push_back({.prompt = static_cast<uint32_t>(7 + 41 * i),
                    .seed = 100 + i,
                    .max_new_tokens = static_cast<uint32_t>(30 + 9 * i),
                    .kind = kind,
                    .budget = kind == Kind::kFull ? 0 : static_cast<uint32_t>(48 + 16 * (i % 4)),
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
  RigOptions Options() const {
    RigOptions options;
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
  EngineRig alone;
  alone.Start();
  EngineRig together(Options());
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
  EngineRig alone;
  alone.Start();
  RigOptions options = Options();
  options.num_pages = 600;
  EngineRig rig(options);
  rig.link().observer = [&](const v1::SessionRequest& request, const v1::SessionReply&) {
    if (request.ack_size() + request.close_size() > 0) rig.ScribbleOnFreePages();
  };
  rig.Start();
  const std::vector<Ask> asks = MixedAsks(/*synchronous=*/true);
  std::vector<std::unique_ptr<Recorder>> recorders;
  for (const Ask& ask : asks) {
    recorders.push_back(std::make_unique<Recorder>());
    rig.Push(Make(ask), recorders.back().get());
  }
  Ask pipelined = asks[7];
  pipelined.synchronous = false;
  Recorder other, cut;
  rig.Push(Make(pipelined), &other);
  // Given up when the next step is on its way already.
  std::shared_ptr<Submission> cut_submission = std::make_shared<Submission>();
  cut_submission->request = Make({.prompt = 70, .seed = 77, .max_new_tokens = 100});
  cut_submission->sink = &cut;
  cut.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_chunk() && cut.tokens.size() == 9) {
      rig.queue().Cancel(*cut_submission, v1::CLOSE_REASON_CANCELLED);
    }
  };
  ASSERT_TRUE(rig.queue().Push(cut_submission).ok());
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
    EngineRig rig(Options());
    const uint32_t layers = TinyLoadedModel().config().num_layers;
    uint64_t checks = 0, tight = 0;
    rig.link().observer = [&](const v1::SessionRequest&, const v1::SessionReply&) {
      for (const cache::SequenceInfo& info : rig.coordinator().sequences()) {
        if (info.cache.budget.value() == 0 || info.state == cache::SequenceState::kPrefill)
          continue;
        if (info.logical_length <= info.prompt_tokens) continue;  // the compaction is under way
        const uint32_t bound = info.cache.budget.value() / kPageTokens + 2;
        EXPECT_LE(info.held_pages.value(), bound * layers) << info.id;
        EXPECT_LE(info.resident.value(), info.cache.budget.value() + 2 * kPageTokens) << info.id;
        ++checks;
        tight += info.held_pages.value() == bound * layers ? 1 : 0;
      }
      EXPECT_TRUE(rig.coordinator().CheckInvariants().ok());
    };
    rig.Start();
    std::vector<std::unique_ptr<Recorder>> recorders;
    for (const Ask& ask : MixedAsks(synchronous)) {
      recorders.push_back(std::make_unique<Recorder>());
      rig.Push(Make(ask), recorders.back().get());
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
                   .kind = Kind::kPaged,
                   .budget = 64,
                   .synchronous = false};
  EngineRig first(Options()), second(Options());
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

// Scoring what was generated gives the same log-probabilities by the same evictions.
TEST_P(EngineOnDevice, ScoreRepeatsGenerate) {
  for (const Kind kind : {Kind::kFull, Kind::kPaged, Kind::kStreaming}) {
    EngineRig rig(Options());
    rig.Start();
    const Ask ask = {.prompt = 60,
                     .seed = 8,
                     .max_new_tokens = 70,
                     .kind = kind,
                     .budget = kind == Kind::kFull ? 0u : 48u,
                     .temperature = 1};
    const auto generated = rig.Run(Make(ask));
    SequenceRequest score = Make(ask);
    for (const uint32_t token : generated->tokens) score.targets.push_back(TokenId(token));
    const auto scored = rig.Run(std::move(score));
    ExpectEqual(*scored, *generated, "scored");
  }
}

TEST_P(EngineOnDevice, ChunksDoNotShow) {
  std::unique_ptr<Recorder> expected;
  for (const uint32_t chunk : {512u, 16u, 37u, 100u}) {
    RigOptions options = Options();
    options.prefill_chunk = chunk;
    EngineRig rig(options);
    rig.Start();
    auto got = rig.Run(
        Make({.prompt = 230, .seed = 3, .max_new_tokens = 50, .kind = Kind::kPaged, .budget = 96}));
    if (expected == nullptr) {
      expected = std::move(got);
    } else {
      ExpectEqual(*got, *expected, "chunks of " + std::to_string(chunk));
    }
  }
}

// The counts that operators and the oracle go by.
TEST(EngineEvictions, HappenWhenThePageFills) {
  EngineRig rig;
  rig.Start();
  const auto got = rig.Run(
      Make({.prompt = 36, .seed = 2, .max_new_tokens = 50, .kind = Kind::kPaged, .budget = 32}));
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

// A long prompt is cut, and each step with one of its chunks has a token of the running stream.
TEST(EngineBatches, DecodesGoOnBesideAPrompt) {
  RigOptions options;
  options.prefill_chunk = 16;
  EngineRig rig(options);
  Recorder stream, prompt;
  int chunks = 0, alone = 0;
  rig.link().observer = [&](const v1::SessionRequest& request, const v1::SessionReply&) {
    bool chunk = false, token = false;
    for (const v1::CommitTokens& commit : request.commit()) {
      chunk |= commit.sequence_id() == prompt.started.sequence_id();
      token |= commit.sequence_id() == stream.started.sequence_id();
    }
    chunks += chunk ? 1 : 0;
    alone += chunk && !token ? 1 : 0;
  };
  rig.Start();
  rig.Push(Make({.prompt = 5, .max_new_tokens = 1900}), &stream);
  ASSERT_TRUE(stream.WaitForTokens(3));
  rig.Push(Make({.prompt = 400, .max_new_tokens = 1}), &prompt);
  ASSERT_TRUE(prompt.Wait());
  ASSERT_TRUE(stream.Wait());
  EXPECT_EQ(chunks, 25);
  EXPECT_EQ(alone, 0);
}

TEST(EngineBatches, RunsAtMostMaxBatchAndQueuesTheRest) {
  RigOptions options;
  options.max_batch = 2;
  EngineRig rig(options);
  size_t most = 0;
  rig.link().observer = [&](const v1::SessionRequest&, const v1::SessionReply&) {
    most = std::max(most, rig.coordinator().sequences().size());
  };
  rig.Start();
  std::vector<std::unique_ptr<Recorder>> recorders;
  for (uint64_t i = 0; i < 6; ++i) {
    recorders.push_back(std::make_unique<Recorder>());
    rig.Push(Make({.prompt = 20, .seed = i, .max_new_tokens = 30}), recorders.back().get());
  }
  for (const auto& recorder : recorders) {
    ASSERT_TRUE(recorder->Wait());
    EXPECT_TRUE(recorder->status.ok()) << recorder->status;
    EXPECT_EQ(recorder->tokens.size(), 30u);
  }
  EXPECT_EQ(most, 2u);
}

// A token is in the manager's record before a client sees it.
TEST(EngineRecord, IsAheadOfTheClient) {
  EngineRig rig;
  std::map<uint64_t, uint32_t> sampled;  // by sequence id
  rig.link().observer = [&](const v1::SessionRequest& request, const v1::SessionReply&) {
    for (const v1::CommitTokens& commit : request.commit()) {
      sampled[commit.sequence_id()] += commit.sampled_tokens_size();
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
  rig.Start();
  rig.Push(Make({.prompt = 40, .max_new_tokens = 60}), &recorder);
  ASSERT_TRUE(recorder.Wait());
  EXPECT_EQ(seen, 60u);
}

}  // namespace
}  // namespace folio::worker::testing
