// One sequence whose pages are damaged, or whose record another worker made wrong, ends alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/base/check.h"
#include "services/wire/output_options.h"
#include "services/worker/engine/sequence_request.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

class EngineDamage : public ::testing::TestWithParam<int> {
 protected:
  HarnessOptions Options() const {
    HarnessOptions options;
    options.depth = GetParam();
    options.orphan_ttl = absl::Hours(1);
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineDamage, ::testing::Values(0, 1));

TEST_P(EngineDamage, ADamagedPageEndsItsSequenceAlone) {
  EngineHarness harness(Options());
  std::vector<CloseReason> closed;  // written by the step loop's thread
  harness.link().observer = [&closed](const SessionRequest& request, const SessionReply&) {
    for (const CloseSequence& close : request.close) closed.push_back(close.reason);
  };
  harness.Start();
  const std::vector<Ask> asks = {
      {.prompt = 30, .seed = 1, .max_new_tokens = 200},
      {.prompt = 70, .seed = 2, .max_new_tokens = 200, .policy = kPaged, .budget = 48},
      {.prompt = 50, .seed = 3, .max_new_tokens = 200, .temperature = 0.9F}};
  std::vector<std::unique_ptr<Recorder>> alone;
  for (const Ask& ask : asks) alone.push_back(harness.Run(Make(ask)));

  Recorder damaged;
  std::vector<Recorder> others(asks.size());
  bool done = false;
  // All recorders are called on the step loop's thread.
  damaged.on_event = [&](const v1::GenerateResponse& event) {
    const bool all_run = std::all_of(others.begin(), others.end(), [](const Recorder& other) {
      return other.tokens.size() > 5 && other.tokens.size() < 150;
    });
    if (done || !event.has_chunk() || !all_run) return;
    done = true;
    harness.DamagePageOf(SequenceId(damaged.started.sequence_id()));
  };
  for (size_t i = 0; i < asks.size(); ++i) harness.Push(Make(asks[i]), &others[i]);
  harness.Push(Make({.prompt = 40, .seed = 9, .max_new_tokens = 1500}), &damaged);
  ASSERT_TRUE(damaged.Wait());
  EXPECT_TRUE(absl::IsDataLoss(damaged.status)) << damaged.status;
  EXPECT_THAT(std::string(damaged.status.message()),
              HasSubstr("not finite for this sequence, at position "));
  EXPECT_LT(damaged.tokens.size(), 400U);
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSERT_TRUE(others[i].Wait());
    EXPECT_TRUE(others[i].status.ok()) << others[i].status;
    EXPECT_EQ(others[i].tokens, alone[i]->tokens);
    EXPECT_EQ(others[i].logprobs, alone[i]->logprobs);
    EXPECT_EQ(others[i].evictions, alone[i]->evictions);
  }
  EXPECT_TRUE(harness.PagesAreBack());
  harness.engine().Drain(SteadyTime::InfiniteFuture());
  ASSERT_TRUE(harness.Join().ok());
  EXPECT_EQ(std::count(closed.begin(), closed.end(), CloseReason::kError), 1);
  // With the probe of Start.
  EXPECT_EQ(std::count(closed.begin(), closed.end(), CloseReason::kFinished), 7);
}

// Also one that scores: its targets are given, but its log-probabilities would not be numbers.
TEST_P(EngineDamage, ADamagedPromptEndsAtItsEnd) {
  EngineHarness harness(Options());
  harness.Start();
  for (const bool scoring : {false, true}) {
    SequenceRequest request = Make({.prompt = 150, .seed = 4, .max_new_tokens = 10});
    if (scoring) request.targets.assign(10, TokenId(5));
    Recorder damaged;
    bool done = false;
    damaged.on_event = [&](const v1::GenerateResponse& event) {
      if (event.has_prefill() && !std::exchange(done, true)) {
        harness.DamagePageOf(SequenceId(damaged.started.sequence_id()));
      }
    };
    harness.Push(std::move(request), &damaged);
    ASSERT_TRUE(damaged.Wait());
    EXPECT_TRUE(absl::IsDataLoss(damaged.status)) << damaged.status;
    EXPECT_THAT(std::string(damaged.status.message()), HasSubstr("at position 149"));
    EXPECT_TRUE(damaged.tokens.empty());
    EXPECT_TRUE(harness.PagesAreBack());
  }
}

// Another worker, which opens what no client of ours could ask for, commits some of it and is lost.
SequenceId Leave(EngineHarness& harness, const OpenSequence& open, uint32_t committed) {
  cache::Coordinator& coordinator = harness.coordinator();
  const WorkerId stranger = coordinator.AddWorker("stranger");
  const uint32_t layers = TinyLoadedModel().config().num_layers;
  folio::testing::InProcessLink link(coordinator, stranger,
                                     manager::CacheRules{kPageTokens, layers, {}});
  SessionRequest opening;
  opening.open = {open};
  link.Send(std::move(opening));
  const std::optional<SessionReply> reply = link.TryReceive();
  FOLIO_CHECK(reply.has_value() && reply->opened.size() == 1);
  const OpenResult& opened = reply->opened[0];
  EXPECT_TRUE(opened.status.ok()) << opened.status;
  if (committed > 0) {
    SessionRequest commit;
    commit.commit.push_back({opened.sequence, opened.lease_epoch, TokenCount(committed), {}, {}});
    link.Send(std::move(commit));
    const std::optional<SessionReply> taken = link.TryReceive();
    EXPECT_TRUE(taken.has_value() && taken->failed.empty());
  }
  coordinator.ConfirmExited(stranger);
  return opened.sequence;
}

struct BadRecord {
  std::string words;  // of the refusal
  OpenSequence open;
  uint32_t committed = 0;
};

OpenSequence OpenOf(const Ask& ask) {
  SequenceRequest request = Make(ask);
  request.resume_token = kToken;
  return worker::OpenOf(1, request, TokenCount(0));
}

std::vector<BadRecord> BadRecords() {
  std::vector<BadRecord> bad;
  const auto add = [&bad](std::string words, const Ask& ask = {}) -> BadRecord& {
    return bad.emplace_back(BadRecord{std::move(words), OpenOf(ask), 0});
  };
  add("token 7 is 4000000000, the vocabulary has ").open.prompt[7] = TokenId(4000000000);
  add("exceed the model's context of 2048", {.prompt = 1000, .max_new_tokens = 1049});
  add("max_new_tokens is 0").open.max_new_tokens = TokenCount(0);
  wire::OutputOptions output;
  output.logprobs = 4000000000;
  add("logprobs is 4000000000").open.output = wire::Serialize(output);
  output = {};
  output.stop.assign(17, "stop");
  add("stop has 17 strings").open.output = wire::Serialize(output);
  output.stop = {""};
  add("stop[0] must not be empty").open.output = wire::Serialize(output);
  output.stop = {std::string(257, 'x')};
  add("stop[0] is 257 bytes long").open.output = wire::Serialize(output);
  output = {};
  output.stop_tokens = {TokenId(UINT32_MAX)};
  add("stop_token_ids[0] is 4294967295").open.output = wire::Serialize(output);
  output = {};
  output.min_tokens = 4000000000;
  add("min_tokens is 4000000000").open.output = wire::Serialize(output);
  add("sampling.logit_bias has token 4294967295").open.sampling.changes.biases = {
      {TokenId(UINT32_MAX), 1}};
  add("its output options").open.output = "\xff\xff";
  // The chunk that ends the prompt would have fewer rows than are to score it.
  add("only 1 of the last 4 tokens of its prompt",
      {.prompt = 70, .policy = "query_diff:window=4", .budget = 48})
      .committed = 69;
  return bad;
}

TEST_P(EngineDamage, ARecordThatCannotBeEndsItsSequenceAlone) {
  EngineHarness harness(Options());
  harness.Start();
  const Ask ask = {.prompt = 20, .seed = 1, .max_new_tokens = 20};
  const auto before = harness.Run(Make(ask));
  for (const BadRecord& bad : BadRecords()) {
    SCOPED_TRACE(bad.words);
    SequenceRequest resume;
    resume.resume_token = kToken;
    resume.resume = {Leave(harness, bad.open, bad.committed), {}};
    const auto refused = harness.Run(resume);
    EXPECT_TRUE(absl::IsInternal(refused->status)) << refused->status;
    EXPECT_THAT(std::string(refused->status.message()), HasSubstr(bad.words));
    EXPECT_TRUE(harness.PagesAreBack());
    // It was closed at the manager, so no other worker can claim it.
    const auto again = harness.Run(resume);
    EXPECT_TRUE(absl::IsNotFound(again->status)) << again->status;
  }
  EXPECT_EQ(harness.Run(Make(ask))->tokens, before->tokens);
}

}  // namespace
}  // namespace folio::worker::testing
