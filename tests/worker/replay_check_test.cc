#include "services/worker/rpc/replay_check.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

v1::GenerateRequest RequestOf(const std::string& text) {
  v1::GenerateRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

const std::string kSeededText = "input { text: 'hello' } sampling { seed: 7 } ";

std::string TokenOf(const std::string& text) {
  const auto ids = TinyLimits().tokenizer->Encode(text);
  EXPECT_TRUE(ids.ok() && ids->size() == 1) << text;
  return ids.ok() ? absl::StrCat(ids->front().value()) : "";
}

TEST(CheckReplay, TakesTheTokensOfAReplay) {
  const std::string tokens = absl::StrCat("replay { received_tokens: [", TokenOf("a"), "] }");
  for (const char* format : {"", "format { regex: 'a+' } "}) {
    const auto request =
        CheckGenerate(RequestOf(absl::StrCat(kSeededText, format, tokens)), TinyLimits());
    ASSERT_TRUE(request.ok()) << request.status();
    ASSERT_EQ(request->replayed.size(), 1U);
    EXPECT_EQ(request->ForcedToken(0), request->replayed[0]);
    EXPECT_EQ(request->ForcedToken(1), std::nullopt);
    EXPECT_EQ(request->max_new_tokens, kDefaultMaxTokens);
  }
  // Before min_tokens have come a stop token ends nothing, and behind them it is the last one.
  for (const char* more : {"min_tokens: 2 ", "min_tokens: 2 format { regex: 'b+' } "}) {
    const std::string text =
        absl::StrCat(kSeededText, more, "stop_token_ids: ", TokenOf("b"),
                     " replay { received_tokens: [", TokenOf("b"), ", ", TokenOf("b"), "] }");
    const auto request = CheckGenerate(RequestOf(text), TinyLimits());
    EXPECT_TRUE(request.ok()) << more << request.status();
  }
  // Nothing had come, so any seed will do.
  EXPECT_TRUE(CheckGenerate(RequestOf(kSeededText + "replay {}"), TinyLimits()).ok());
}

TEST(CheckReplay, TakesNoTokensOfAnotherModel) {
  ModelLimits limits = TinyLimits();
  limits.fingerprint = "mine";
  const auto check = [&](const char* model) {
    return CheckGenerate(RequestOf(absl::StrCat(kSeededText, "replay { model_fingerprint: '", model,
                                                "' received_tokens: [", TokenOf("a"), "] }")),
                         limits)
        .status();
  };
  EXPECT_TRUE(check("mine").ok());
  EXPECT_TRUE(check("").ok()) << "an old client does not know it";
  EXPECT_TRUE(absl::IsFailedPrecondition(check("another"))) << check("another");
}

}  // namespace
}  // namespace folio::worker::testing
