// Answers as OpenAI's API has them.
#include "services/gateway/openai/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/strip.h"
#include "services/gateway/openai/json_text.h"
#include "services/gateway/openai/logprobs.h"

namespace folio::gateway {
namespace {

v1::TokenLogprob Logprob(const std::string& bytes, float logprob) {
  v1::TokenLogprob one;
  one.set_bytes(bytes);
  one.set_logprob(logprob);
  v1::Candidate* top = one.add_top();
  top->set_bytes("best");
  top->set_logprob(-0.25F);
  return one;
}

Call ACall(bool chat) {
  Call call;
  call.chat = chat;
  return call;
}

Choice AChoice() {
  Choice choice;
  choice.text = "say \"hi\"";
  choice.finished.set_reason(v1::FINISH_REASON_STOP);
  choice.finished.set_stop("END");
  return choice;
}

// The JSON of the only event.
Json Event(const std::string& out) {
  absl::string_view text = out;
  EXPECT_TRUE(absl::ConsumePrefix(&text, "data: ") && absl::ConsumeSuffix(&text, "\n\n")) << out;
  const auto parsed = ParseJson(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status() << out;
  return parsed.value_or(Json());
}

TEST(AnswerWriter, WritesWholeAnswers) {
  const AnswerWriter writer(ACall(true), "chatcmpl-1", 5, "m");
  const Json whole = *ParseJson(writer.Whole({AChoice(), AChoice()}, {3, 4}));
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["created"], 5);
  EXPECT_EQ(whole["usage"]["total_tokens"], 7);
  EXPECT_EQ(whole["choices"][1]["index"], 1);
  const Json choice = whole["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "say \"hi\"");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], "END");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_FALSE(choice.contains("cache"));
}

TEST(AnswerWriter, WritesChunks) {
  Call call = ACall(true);
  call.include_usage = true;
  const AnswerWriter writer(call, "id", 5, "m");
  std::string role, text, finish, usage;
  writer.AppendRole(0, nullptr, &role);
  EXPECT_EQ(Event(role)["choices"][0]["delta"], Json({{"role", "assistant"}, {"content", ""}}));
  EXPECT_TRUE(Event(role)["usage"].is_null());
  writer.AppendText(2, "\n", {}, 0, nullptr, &text);
  EXPECT_EQ(Event(text)["choices"][0]["delta"]["content"], "\n");
  EXPECT_EQ(Event(text)["choices"][0]["index"], 2);
  EXPECT_TRUE(Event(text)["choices"][0]["finish_reason"].is_null());
  Choice ended;
  ended.finished.set_reason(v1::FINISH_REASON_LENGTH);
  writer.AppendFinish(0, ended, {}, nullptr, &finish);
  EXPECT_EQ(Event(finish)["choices"][0]["finish_reason"], "length");
  writer.AppendUsage({1, 2}, &usage);
  EXPECT_TRUE(Event(usage)["choices"].empty());
  EXPECT_EQ(Event(usage)["usage"]["completion_tokens"], 2);
  const TokenUsage each = {1, 2};
  std::string with_usage;
  writer.AppendText(0, "a", {}, 0, &each, &with_usage);
  EXPECT_EQ(Event(with_usage)["usage"]["prompt_tokens"], 1);
}

TEST(AnswerWriter, WritesToolCalls) {
  Call asked = ACall(true);
  asked.top_logprobs = 0;
  const AnswerWriter writer(asked, "id", 5, "m");
  Choice choice = AChoice();
  choice.text = "\n";
  choice.tool_calls.push_back({"call_1", "f", "{}"});
  const Json whole = *ParseJson(writer.Whole({choice}, {}));
  EXPECT_TRUE(whole["choices"][0]["message"]["content"].is_null());
  EXPECT_EQ(whole["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "tool_calls");
  std::string piece;
  const v1::TokenLogprob logprob = Logprob("{", -0.5F);
  writer.AppendToolCall(0, {.index = 1, .id = "call_1", .name = "f", .arguments = "{\"a"},
                        std::vector{&logprob}, nullptr, &piece);
  EXPECT_EQ(Event(piece)["choices"][0]["logprobs"]["content"][0]["token"], "{");
  const Json call = Event(piece)["choices"][0]["delta"]["tool_calls"][0];
  EXPECT_EQ(call["index"], 1);
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["arguments"], "{\"a");
}

TEST(AnswerWriter, ACallThatTheClientNamedIsNoReasonToEnd) {
  Call call = ACall(true);
  call.forced_tool = "f";
  Choice choice = AChoice();
  choice.tool_calls.push_back({"call_1", "f", "{}"});
  const Json whole = *ParseJson(AnswerWriter(call, "id", 5, "m").Whole({choice}, {}));
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
}

TEST(AnswerWriter, ShowsTheCacheToThoseWhoAsk) {
  Call call = ACall(false);
  call.show_cache = true;
  Choice choice = AChoice();
  choice.started.mutable_cache()->mutable_policy()->mutable_key_diff();
  choice.started.mutable_cache()->set_budget_tokens(64);
  choice.finished.mutable_cache()->set_evicted_tokens(9);
  const Json whole = *ParseJson(AnswerWriter(call, "id", 5, "m").Whole({choice}, {}));
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["choices"][0]["text"], "say \"hi\"");
  EXPECT_EQ(whole["choices"][0]["cache"]["policy"], "key_diff");
  EXPECT_EQ(whole["choices"][0]["cache"]["evicted_tokens"], 9);
  EXPECT_FALSE(whole["choices"][0]["cache"].contains("kept"));
  choice.kept = {{{0, 4}, {9, 12}}, {}};
  std::string finish;
  AnswerWriter(call, "id", 5, "m").AppendFinish(0, choice, {}, nullptr, &finish);
  EXPECT_EQ(Event(finish)["choices"][0]["cache"]["kept"], Json::parse("[[[0, 4], [9, 12]], []]"));
}

TEST(Logprobs, AreWrittenInBothForms) {
  const v1::TokenLogprob first = Logprob("é", -0.5F);
  const v1::TokenLogprob second = Logprob("\xff", std::numeric_limits<float>::quiet_NaN());
  const std::vector<const v1::TokenLogprob*> tokens = {&first, &second};
  std::string chat, completion, bare;
  AppendChatLogprobs(tokens, 1, &chat);
  const Json content = (*ParseJson(chat))["content"];
  EXPECT_EQ(content[0]["token"], "é");
  EXPECT_EQ(content[0]["bytes"], Json({0xc3, 0xa9}));
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "best");
  EXPECT_EQ(content[1]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(content[1]["logprob"], -9999.0);
  EXPECT_EQ(content[1]["bytes"], Json({0xff}));
  AppendCompletionLogprobs(tokens, 1, 10, &completion);
  const Json lists = *ParseJson(completion);
  EXPECT_EQ(lists["text_offset"], Json({10, 11}));
  EXPECT_EQ(lists["token_logprobs"], Json({-0.5, -9999.0}));
  EXPECT_EQ(lists["top_logprobs"][0], Json({{"best", -0.25}, {"é", -0.5}}));
  AppendCompletionLogprobs(tokens, 0, 0, &bare);
  EXPECT_TRUE((*ParseJson(bare))["top_logprobs"].is_null());
}

}  // namespace
}  // namespace folio::gateway
