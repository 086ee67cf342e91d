// Requests that are sent again with the tokens that their client has give the rest of the answer,
// as if nothing had happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

constexpr char kToken[] = "0123456789abcdef";

// A chunk of an answer.
struct Piece {
  std::vector<uint32_t> tokens;
  std::string text;
};

// An answer, or the part of it that came.
struct Heard {
  std::vector<Piece> pieces;
  std::unique_ptr<Recorder> recorder;

  std::string text(size_t from = 0) const {
    std::string joined;
    for (size_t i = from; i < pieces.size(); ++i) joined += pieces[i].text;
    return joined;
  }
  std::vector<uint32_t> tokens(size_t from, size_t to) const {
    std::vector<uint32_t> joined;
    for (size_t i = from; i < to; ++i) {
      joined.insert(joined.end(), pieces[i].tokens.begin(), pieces[i].tokens.end());
    }
    return joined;
  }
  std::vector<uint32_t> tokens(size_t from = 0) const { return tokens(from, pieces.size()); }
};

SequenceRequest Asked(const Ask& ask, const std::vector<uint32_t>& replayed = {}) {
  SequenceRequest request = Make(ask);
  request.report_evictions = false;
  request.resume_token = kToken;
  for (const uint32_t id : replayed) request.replayed.emplace_back(id);
  return request;
}

Heard Hear(EngineHarness& harness, SequenceRequest request) {
  Heard heard;
  heard.recorder = std::make_unique<Recorder>();
  heard.recorder->on_event = [&heard](const v1::GenerateResponse& event) {
    if (!event.has_chunk()) return;
    const auto& tokens = event.chunk().tokens();
    heard.pieces.push_back({{tokens.begin(), tokens.end()}, event.chunk().text()});
  };
  harness.Push(std::move(request), heard.recorder.get());
  EXPECT_TRUE(heard.recorder->Wait());
  EXPECT_TRUE(heard.recorder->status.ok()) << heard.recorder->status;
  heard.recorder->on_event = nullptr;
  return heard;
}

class EngineReplay : public ::testing::TestWithParam<int> {
 protected:
  HarnessOptions Options() const {
    HarnessOptions options;
    options.depth = GetParam();
    options.orphan_ttl = absl::Hours(1);
    options.token_budget = {.alone = 32, .beside_decodes = 32};
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineReplay, ::testing::Values(0, 1));

struct Case {
  std::string policy;
  uint32_t budget;
  float temperature;
};

TEST_P(EngineReplay, GivesTheTokensOfAnUnbrokenRun) {
  for (const Case& c :
       {Case{kFull, 0, 0}, Case{kFull, 0, 0.9F}, Case{kPaged, 48, 0}, Case{kStreaming, 48, 0.9F},
        Case{"key_diff", 48, 0}, Case{"query_diff:window=4", 48, 0}, Case{"kv_crush", 64, 0.5F}}) {
    const Ask ask = {.prompt = 70,
                     .seed = 5,
                     .max_new_tokens = 60,
                     .policy = c.policy,
                     .budget = c.budget,
                     .temperature = c.temperature};
    EngineHarness harness(Options());
    harness.Start();
    const Heard whole = Hear(harness, Asked(ask));
    ASSERT_EQ(whole.tokens().size(), 60U);
    for (size_t cut = 1; cut <= whole.pieces.size(); cut += cut < 4 ? 1 : 9) {
      SCOPED_TRACE(absl::StrCat(c.policy, " after ", cut, " chunks"));
      const std::vector<uint32_t> had = whole.tokens(0, cut);
      const Heard rest = Hear(harness, Asked(ask, had));
      EXPECT_EQ(rest.tokens(), whole.tokens(cut));
      EXPECT_EQ(rest.text(), whole.text(cut));
      EXPECT_EQ(rest.recorder->started.prompt_tokens(), 70U);
      EXPECT_EQ(rest.recorder->started.replayed_tokens(), had.size());
      EXPECT_EQ(rest.recorder->finished.usage().prompt_tokens(), 70U);
      EXPECT_EQ(rest.recorder->finished.usage().generated_tokens(), 60U);
      EXPECT_EQ(rest.recorder->finished.cache().resident_tokens(),
                whole.recorder->finished.cache().resident_tokens());
      EXPECT_EQ(rest.recorder->logprobs.size(), rest.tokens().size());
      for (const float logprob : rest.recorder->logprobs) EXPECT_FALSE(std::isnan(logprob));
    }
  }
}

TEST_P(EngineReplay, FindsAStopStringThatBeganBefore) {
  const Ask ask = {.prompt = 40, .seed = 5, .max_new_tokens = 60, .temperature = 0.9F};
  EngineHarness harness(Options());
  harness.Start();
  const Heard free = Hear(harness, Asked(ask));
  // From the end of one chunk to the beginning of the next, in the middle of the answer.
  size_t at = free.pieces.size() / 2;
  while (free.pieces[at].text.empty() || free.pieces[at + 1].text.empty()) ++at;
  std::string stop;
  for (size_t i = at; i < at + 2; ++i) stop += free.pieces[i].text;
  const auto asked = [&](const std::vector<uint32_t>& replayed) {
    SequenceRequest request = Asked(ask, replayed);
    request.output.stop = {stop};
    return request;
  };
  const Heard whole = Hear(harness, asked({}));
  ASSERT_EQ(whole.recorder->finished.reason(), v1::FINISH_REASON_STOP);
  ASSERT_EQ(whole.text(), free.text().substr(0, free.text().find(stop)));
  for (size_t cut = 1; cut <= whole.pieces.size(); ++cut) {
    SCOPED_TRACE(cut);
    const Heard rest = Hear(harness, asked(whole.tokens(0, cut)));
    EXPECT_EQ(rest.text(), whole.text(cut));
    EXPECT_EQ(rest.tokens(), whole.tokens(cut));
    EXPECT_EQ(rest.recorder->finished.reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(rest.recorder->finished.stop(), stop);
  }
}

TEST_P(EngineReplay, PenaltiesAndTheLeastLengthCountTheTokensOfBefore) {
  const Ask ask = {.prompt = 40, .seed = 5, .max_new_tokens = 40, .temperature = 0.9F};
  const auto asked = [&](const std::vector<uint32_t>& replayed) {
    SequenceRequest request = Asked(ask, replayed);
    request.sampling.changes.presence_penalty = 1.5F;
    request.sampling.changes.frequency_penalty = 0.5F;
    request.output.ignore_eos = false;
    request.output.min_tokens = 35;
    return request;
  };
  EngineHarness harness(Options());
  harness.Start();
  const Heard whole = Hear(harness, asked({}));
  ASSERT_GE(whole.tokens().size(), 35U);
  for (const size_t cut : {1UL, 9UL, whole.pieces.size() - 1}) {
    EXPECT_EQ(Hear(harness, asked(whole.tokens(0, cut))).tokens(), whole.tokens(cut)) << cut;
  }
}

// The worker that replays is lost too, before and after it has come to new tokens.
TEST_P(EngineReplay, IsResumedLikeAnyOther) {
  const Ask ask = {.prompt = 40, .seed = 5, .max_new_tokens = 40, .policy = kPaged, .budget = 48};
  std::vector<uint32_t> whole;
  {
    EngineHarness harness(Options());
    harness.Start();
    whole = Hear(harness, Asked(ask)).tokens();
    ASSERT_EQ(whole.size(), 40U);
  }
  for (const int commits : {6, 30}) {
    SCOPED_TRACE(commits);
    EngineHarness harness(Options());
    harness.link().observer = [&harness, commits, seen = 0](const SessionRequest& request,
                                                            const SessionReply&) mutable {
      seen += static_cast<int>(request.commit.size());
      if (seen > commits) harness.link().Break(absl::UnavailableError("killed"));
    };
    harness.Start();
    std::vector<uint32_t> had(whole.begin(), whole.begin() + 20);
    Recorder lost;
    harness.Push(Asked(ask, had), &lost);
    ASSERT_TRUE(lost.Wait());
    EXPECT_TRUE(absl::IsUnavailable(lost.status)) << lost.status;
    EXPECT_FALSE(harness.Join().ok());
    harness.NextWorker();
    harness.Start();
    EXPECT_EQ(lost.tokens.empty(), commits == 6);
    had.insert(had.end(), lost.tokens.begin(), lost.tokens.end());
    SequenceRequest again;
    again.resume_token = kToken;
    again.resume = {SequenceId(lost.started.sequence_id()), {}};
    for (const uint32_t id : had) again.resume->received.emplace_back(id);
    const auto rest = harness.Run(std::move(again));
    EXPECT_TRUE(rest->status.ok()) << rest->status;
    had.insert(had.end(), rest->tokens.begin(), rest->tokens.end());
    EXPECT_EQ(had, whole);
    EXPECT_EQ(rest->finished.usage().generated_tokens(), 40U);
  }
}

}  // namespace
}  // namespace folio::worker::testing
