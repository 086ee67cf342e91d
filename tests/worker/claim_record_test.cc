// Records of other workers against the model and the pool of the worker that claims them.
#include "services/worker/engine/claim_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "services/wire/output_options.h"

namespace folio::worker {
namespace {

using ::testing::HasSubstr;

constexpr RecordLimits kLimits = {.vocab = 100, .context = 64};
constexpr CacheGeometry kClaimGeometry = {
    .num_layers = 2, .num_kv_heads = 1, .head_dim = 8, .page_tokens = 4};
constexpr uint32_t kPages = 16;
constexpr PromptStops kWhole(10, 0, 0);

// A prompt of 10 tokens, of 20 to be sampled 3 are, and 12 tokens are in pages.
ClaimResult Good() {
  ClaimResult record;
  record.prompt_tokens = TokenCount(10);
  record.max_new_tokens = TokenCount(20);
  record.logical_length = TokenCount(12);
  for (uint32_t i = 0; i < 13; ++i) record.tokens.emplace_back(i);
  record.sampling = {.temperature = 0.5F, .top_k = 3, .top_p = 0.9F, .min_p = 0.1F, .seed = 7};
  record.label = "mine";
  wire::OutputOptions output;
  output.stop = {"stop"};
  output.logprobs = 2;
  record.output = wire::Serialize(output);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    ClaimedLayer& table = record.layers.emplace_back();
    for (uint32_t page = 0; page < 4; ++page) {
      table.pages.push_back({PageId(4 * layer + page), Generation(1)});
    }
    table.positions = {{Position(0), Position(12)}};
  }
  return record;
}

absl::Status Take(const ClaimResult& record, SequenceRequest* request) {
  request->resume = ResumeRequest{SequenceId(1), {}};
  return TakeRequest(record, kLimits, request).status();
}

TEST(TakeRequest, GivesWhatTheFirstClientAskedFor) {
  SequenceRequest request;
  request.resume = ResumeRequest{SequenceId(1), {TokenId(10)}};
  const auto sampled = TakeRequest(Good(), kLimits, &request);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  EXPECT_EQ(*sampled, (std::vector<TokenId>{TokenId(10), TokenId(11), TokenId(12)}));
  EXPECT_EQ(request.prompt_tokens(), 10U);
  EXPECT_EQ(request.max_new_tokens, 20U);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.seed, 7U);
  EXPECT_EQ(request.label, "mine");
  EXPECT_EQ(request.output.stop, std::vector<std::string>{"stop"});
  EXPECT_EQ(request.output.logprobs, 2);
}

TEST(TakeRequest, TheLimitsThemselvesFit) {
  ClaimResult record = Good();
  record.tokens.back() = TokenId(99);
  record.max_new_tokens = TokenCount(54);
  wire::OutputOptions output;
  output.logprobs = 20;
  output.stop.assign(16, std::string(256, 'x'));
  record.output = wire::Serialize(output);
  SequenceRequest request;
  EXPECT_TRUE(Take(record, &request).ok());
}

struct Case {
  const char* words;
  std::function<void(ClaimResult&)> spoil;
};

TEST(TakeRequest, RefusesWhatNoWorkerOfThisModelCouldHaveLeft) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases = {
      {"token 3 is 100, the vocabulary has 100", [](auto& r) { r.tokens[3] = TokenId(100); }},
      {"token 12 is 4294967295", [](auto& r) { r.tokens[12] = TokenId(0xffffffff); }},
      {"context of 64", [](auto& r) { r.max_new_tokens = TokenCount(55); }},
      {"context of 64", [](auto& r) { r.max_new_tokens = TokenCount(UINT32_MAX); }},
      {"context of 64", [](auto& r) { r.prompt_tokens = TokenCount(UINT32_MAX); }},
      {"max_new_tokens is 0", [](auto& r) { r.max_new_tokens = TokenCount(0); }},
      {"its tokens", [](auto& r) { r.max_new_tokens = TokenCount(2); }},
      {"its tokens", [](auto& r) { r.prompt_tokens = TokenCount(0); }},
      {"its tokens", [](auto& r) { r.prompt_tokens = TokenCount(14); }},
      {"its tokens", [](auto& r) { r.logical_length = TokenCount(14); }},
      {"its tokens", [](auto& r) { r.logical_length = TokenCount(UINT32_MAX); }},
      {"the next token is not known", [](auto& r) { r.logical_length = TokenCount(13); }},
      {"sampling.temperature is nan", [](auto& r) { r.sampling.temperature = kNan; }},
      {"sampling.temperature is -1", [](auto& r) { r.sampling.temperature = -1; }},
      {"sampling.top_p is 0", [](auto& r) { r.sampling.top_p = 0; }},
      {"sampling.min_p is 2", [](auto& r) { r.sampling.min_p = 2; }},
      {"its output options", [](auto& r) { r.output = "\xff"; }},
  };
  for (const Case& one : cases) {
    ClaimResult record = Good();
    one.spoil(record);
    SequenceRequest request;
    const absl::Status status = Take(record, &request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << one.words;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.words));
  }
}

TEST(TakeRequest, RefusesOutputOptionsThatNoClientMayAskFor) {
  std::vector<wire::OutputOptions> cases(4);
  cases[0].logprobs = 21;
  cases[1].stop.assign(17, "x");
  cases[2].stop = {std::string(257, 'x')};
  cases[3].stop = {"x", ""};
  for (const wire::OutputOptions& output : cases) {
    ClaimResult record = Good();
    record.output = wire::Serialize(output);
    SequenceRequest request;
    EXPECT_EQ(Take(record, &request).code(), absl::StatusCode::kInternal);
  }
}

TEST(ValidateTables, APromptNeedsPagesUpToItsNextStop) {
  ClaimResult record = Good();
  record.logical_length = TokenCount(4);
  for (ClaimedLayer& layer : record.layers) {
    layer.positions = {{Position(0), Position(4)}};
    layer.pages.resize(2);  // 8 tokens
  }
  EXPECT_FALSE(ValidateTables(record, kClaimGeometry, kPages, kWhole, UINT32_MAX).ok());
  EXPECT_TRUE(ValidateTables(record, kClaimGeometry, kPages, kWhole, 4).ok());
  EXPECT_TRUE(
      ValidateTables(record, kClaimGeometry, kPages, PromptStops(10, 8, 0), UINT32_MAX).ok());
}

TEST(ValidateTables, TheyFitThePoolAndTheLength) {
  EXPECT_TRUE(ValidateTables(Good(), kClaimGeometry, kPages, kWhole, UINT32_MAX).ok());
  const std::vector<Case> cases = {
      {"its layers", [](auto& r) { r.layers.pop_back(); }},
      {"the table of layer 1", [](auto& r) { r.layers[1].pages[0].page = PageId(kPages); }},
      {"the table of layer 0", [](auto& r) { r.layers[0].positions[0].end = Position(13); }},
      {"the table of layer 0", [](auto& r) { r.layers[0].positions[0].begin = Position(12); }},
      {"the table of layer 1",
       [](auto& r) {
         r.layers[1].positions.push_back({Position(11), Position(12)});
       }},
      {"the pages of layer 1", [](auto& r) { r.layers[1].pages.resize(2); }},
  };
  for (const Case& one : cases) {
    ClaimResult record = Good();
    one.spoil(record);
    const absl::Status status = ValidateTables(record, kClaimGeometry, kPages, kWhole, UINT32_MAX);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << one.words;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.words));
  }
}

TEST(ValidateWindow, IsComputedInOneChunk) {
  ClaimResult record = Good();
  EXPECT_TRUE(ValidateWindow(record, 4).ok()) << "the prompt is done";
  record.logical_length = TokenCount(6);
  EXPECT_TRUE(ValidateWindow(record, 4).ok());
  EXPECT_TRUE(ValidateWindow(record, 0).ok());
  record.logical_length = TokenCount(7);
  const absl::Status cut = ValidateWindow(record, 4);
  EXPECT_EQ(cut.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(cut.message()), HasSubstr("only 3 of the last 4 tokens"));
}

}  // namespace
}  // namespace folio::worker
