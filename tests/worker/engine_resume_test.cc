// Sequences that another worker continues have the same tokens as if nothing had happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

SequenceRequest Resumable(const Ask& ask) {
  SequenceRequest request = Make(ask);
  request.report_evictions = false;
  request.resume_token = kToken;
  return request;
}

SequenceRequest Resume(uint64_t sequence, const std::vector<uint32_t>& received,
                       const std::string& token = kToken) {
  SequenceRequest request;
  request.resume_token = token;
  request.resume = {SequenceId(sequence), {}};
  for (const uint32_t id : received) request.resume->received.emplace_back(id);
  return request;
}

std::vector<uint32_t> Joined(std::vector<uint32_t> a, const std::vector<uint32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class EngineResume : public ::testing::TestWithParam<int> {
 protected:
  HarnessOptions Options() const {
    HarnessOptions options;
    options.depth = GetParam();
    options.orphan_ttl = absl::Hours(1);
    options.token_budget = {.alone = 32, .beside_decodes = 32};
    return options;
  }

  // The worker dies when the manager has taken `commits` commits; the client has what was
  // delivered by then.
  static void Die(EngineHarness& harness, const Ask& ask, int commits, Recorder* client) {
    harness.link().observer = [&harness, commits, seen = 0](const SessionRequest& request,
                                                            const SessionReply&) mutable {
      seen += request.commit.size();
      // The probe of Start commits too.
      if (seen > commits) harness.link().Break(absl::UnavailableError("killed"));
    };
    harness.Start();
    harness.Push(Resumable(ask), client);
    ASSERT_TRUE(client->Wait());
    EXPECT_TRUE(absl::IsUnavailable(client->status)) << client->status;
    EXPECT_FALSE(harness.Join().ok());
    harness.NextWorker();
  }
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineResume, ::testing::Values(0, 1));

struct Case {
  std::string policy;
  uint32_t budget;
  float temperature;
};

TEST_P(EngineResume, GivesTheTokensOfAnUnbrokenRun) {
  for (const Case& c :
       {Case{kFull, 0, 0}, Case{kFull, 0, 0.9F}, Case{kPaged, 48, 0}, Case{kStreaming, 48, 0.9F},
        Case{"key_diff", 48, 0}, Case{"query_diff:window=4", 48, 0}, Case{"kv_crush", 64, 0.5F}}) {
    const Ask ask = {.prompt = 70,
                     .seed = 5,
                     .max_new_tokens = 60,
                     .policy = c.policy,
                     .budget = c.budget,
                     .temperature = c.temperature};
    std::vector<uint32_t> whole;
    {
      EngineHarness harness(Options());
      harness.Start();
      whole = harness.Run(Resumable(ask))->tokens;
      ASSERT_EQ(whole.size(), 60U);
    }
    int resumed = 0;
    for (int commits = 1; commits < 62; commits += commits < 8 ? 1 : 5) {
      SCOPED_TRACE(absl::StrCat(c.policy, " after ", commits, " commits"));
      EngineHarness harness(Options());
      Recorder client;
      Die(harness, ask, commits, &client);
      const uint64_t id = client.started.sequence_id();
      ASSERT_NE(id, 0U);
      EXPECT_EQ(client.started.resume_token(), kToken);
      harness.Start();
      const auto rest = harness.Run(Resume(id, client.tokens));
      ++resumed;
      EXPECT_TRUE(rest->status.ok()) << rest->status;
      EXPECT_EQ(rest->started.sequence_id(), id);
      EXPECT_EQ(rest->started.resume_token(), kToken);
      EXPECT_EQ(rest->started.prompt_tokens(), 70U);
      EXPECT_EQ(Joined(client.tokens, rest->tokens), whole);
      EXPECT_EQ(rest->finished.usage().generated_tokens(), 60U);
      EXPECT_EQ(rest->finished.reason(), v1::FINISH_REASON_LENGTH);
    }
    EXPECT_EQ(resumed, 18);
  }
}

TEST_P(EngineResume, PipelinedSequencesGoOnWithinTheirSlack) {
  const Ask ask = {.prompt = 70,
                   .seed = 5,
                   .max_new_tokens = 60,
                   .policy = kPaged,
                   .budget = 48,
                   .synchronous = false};
  for (const int commits : {5, 13, 20, 21, 22, 40}) {
    EngineHarness harness(Options());
    Recorder client;
    Die(harness, ask, commits, &client);
    harness.Start();
    const auto rest = harness.Run(Resume(client.started.sequence_id(), client.tokens));
    ASSERT_TRUE(rest->status.ok()) << rest->status;
    EXPECT_EQ(client.tokens.size() + rest->tokens.size(), 60U);
    EXPECT_LE(rest->finished.cache().peak_resident_tokens(), 48U + 2 * kPageTokens);
  }
}

// Tokens that the client got and the manager did not hear of stay what they were.
TEST_P(EngineResume, TheClientMayBeAhead) {
  const Ask ask = {.prompt = 40, .seed = 5, .max_new_tokens = 30, .temperature = 0.9F};
  std::vector<uint32_t> whole;
  {
    EngineHarness harness(Options());
    harness.Start();
    whole = harness.Run(Resumable(ask))->tokens;
  }
  for (const std::vector<uint32_t>& ahead : {std::vector<uint32_t>{}, {7, 8, 9}}) {
    EngineHarness harness(Options());
    Recorder client;
    Die(harness, ask, 8, &client);
    const auto infos = cache::Inspector(harness.coordinator()).sequences();
    ASSERT_EQ(infos.size(), 1U);
    const uint32_t known = infos[0].logical_length.value() - 40 + 1;
    // As it would have been, or something else altogether.
    std::vector<uint32_t> received(whole.begin(), whole.begin() + known);
    received = Joined(received, ahead.empty() ? std::vector<uint32_t>{whole[known]} : ahead);
    std::vector<uint32_t> committed;
    harness.link().observer = [&committed](const SessionRequest& request, const SessionReply&) {
      for (const CommitTokens& commit : request.commit) {
        for (const TokenId token : commit.sampled) committed.push_back(token.value());
      }
    };
    harness.Start();
    committed.clear();  // the probe's
    const auto rest = harness.Run(Resume(client.started.sequence_id(), received));
    ASSERT_TRUE(rest->status.ok()) << rest->status;
    EXPECT_EQ(received.size() + rest->tokens.size(), 30U);
    if (ahead.empty()) {
      EXPECT_EQ(Joined(received, rest->tokens), whole);
    }
    const std::vector<uint32_t> forced(received.begin() + known, received.end());
    ASSERT_GE(committed.size(), forced.size());
    committed.resize(forced.size());
    EXPECT_EQ(committed, forced);
  }
}

TEST_P(EngineResume, TwiceInARow) {
  const Ask ask = {.prompt = 40, .seed = 5, .max_new_tokens = 50, .policy = kPaged, .budget = 48};
  EngineHarness harness(Options());
  Recorder client;
  Die(harness, ask, 8, &client);
  harness.link().observer = [&harness, seen = 0](const SessionRequest& request,
                                                 const SessionReply&) mutable {
    seen += request.commit.size();
    if (seen > 20) harness.link().Break(absl::UnavailableError("killed"));
  };
  harness.Start();
  Recorder second;
  harness.Push(Resume(client.started.sequence_id(), client.tokens), &second);
  ASSERT_TRUE(second.Wait());
  EXPECT_TRUE(absl::IsUnavailable(second.status));
  EXPECT_FALSE(harness.Join().ok());
  harness.NextWorker();
  harness.Start();
  const std::vector<uint32_t> two = Joined(client.tokens, second.tokens);
  const auto third = harness.Run(Resume(client.started.sequence_id(), two));
  ASSERT_TRUE(third->status.ok()) << third->status;
  EXPECT_EQ(Joined(two, third->tokens), harness.Run(Resumable(ask))->tokens);
}

TEST_P(EngineResume, WhatWasNotDeliveredComesFromTheRecord) {
  const Ask ask = {.prompt = 40, .seed = 5, .max_new_tokens = 30};
  EngineHarness harness(Options());
  Recorder client;
  Die(harness, ask, 15, &client);
  ASSERT_GT(client.tokens.size(), 8U);
  harness.Start();
  const std::vector<uint32_t> three(client.tokens.begin(), client.tokens.begin() + 3);
  const auto rest = harness.Run(Resume(client.started.sequence_id(), three));
  ASSERT_TRUE(rest->status.ok()) << rest->status;
  EXPECT_EQ(Joined(three, rest->tokens), harness.Run(Resumable(ask))->tokens);
  ASSERT_EQ(rest->logprobs.size(), 27U);
  EXPECT_TRUE(std::isnan(rest->logprobs.front()));
  EXPECT_FALSE(std::isnan(rest->logprobs.back()));
}

TEST_P(EngineResume, RefusesWhatDoesNotFit) {
  const Ask ask = {.prompt = 40, .seed = 5, .max_new_tokens = 30};
  EngineHarness harness(Options());
  Recorder client;
  Die(harness, ask, 15, &client);
  harness.Start();
  const uint64_t id = client.started.sequence_id();
  EXPECT_TRUE(absl::IsPermissionDenied(harness.Run(Resume(id, {}, "fedcba9876543210"))->status));
  EXPECT_TRUE(absl::IsNotFound(harness.Run(Resume(id + 100, {}))->status));
  std::vector<uint32_t> other = client.tokens;
  other[2] += 1;
  const auto wrong = harness.Run(Resume(id, other));
  EXPECT_TRUE(absl::IsInvalidArgument(wrong->status)) << wrong->status;
  EXPECT_THAT(std::string(wrong->status.message()), HasSubstr("resume.received_tokens[2] is"));
}

}  // namespace
}  // namespace folio::worker::testing
