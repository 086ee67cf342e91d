// Requests of OpenAI's API become messages of the protocol. Malformed ones are rows of
// tests/e2e/test_gateway_errors.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "services/gateway/openai/api_error.h"
#include "services/gateway/openai/call.h"
#include "services/gateway/openai/json_text.h"
#include "services/text/utf8.h"

namespace folio::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Call Chat(const std::string& fields) {
  const auto body =
      ParseJson(R"({"messages": [{"role": "user", "content": "Hello"}])" + fields + "}");
  EXPECT_TRUE(body.ok()) << body.status();
  auto call = ReadChat(*body);
  EXPECT_TRUE(call.ok()) << call.status();
  return call.ok() ? *std::move(call) : Call();
}

Call Completion(const std::string& fields) {
  const auto body = ParseJson("{" + fields + "}");
  EXPECT_TRUE(body.ok()) << body.status();
  auto call = ReadCompletion(*body);
  EXPECT_TRUE(call.ok()) << call.status();
  return call.ok() ? *std::move(call) : Call();
}

v1::GenerateRequest OnlyChoice(const Call& call) {
  EXPECT_EQ(call.choices.size(), 1);
  return call.choices.empty() ? v1::GenerateRequest() : call.choices.front();
}

TEST(Requests, HaveOpenAisDefaults) {
  const v1::GenerateRequest chat = OnlyChoice(Chat(""));
  EXPECT_EQ(chat.sampling().temperature(), 1);
  EXPECT_FALSE(chat.sampling().has_top_p());
  EXPECT_FALSE(chat.sampling().has_seed());
  EXPECT_FALSE(chat.sampling().has_repetition_penalty());
  EXPECT_EQ(chat.max_tokens(), 0xffffffff);
  EXPECT_FALSE(chat.has_logprobs());
  EXPECT_FALSE(chat.has_cache());
  EXPECT_FALSE(chat.has_format());
  EXPECT_EQ(OnlyChoice(Completion(R"("prompt": "a")")).max_tokens(), 16);
}

TEST(Requests, AreTranslatedByName) {
  const Call call = Chat(R"(, "model": "m", "stream": true, "max_tokens": 5.0, "temperature": 0.5,
      "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": -1, "presence_penalty": 1,
      "frequency_penalty": -1, "repetition_penalty": 1.1, "logit_bias": {"5": -100, "7": 2.5},
      "stop": ["x", ""], "stop_token_ids": [3, 4], "min_tokens": 2, "ignore_eos": true,
      "priority": -3, "user": "u", "prompt_cache_key": "k", "logprobs": true, "top_logprobs": 4,
      "stream_options": {"include_usage": true}, "chat_template_kwargs": {"a": 1})");
  EXPECT_EQ(call.model, "m");
  EXPECT_TRUE(call.stream && call.include_usage && !call.continuous_usage);
  EXPECT_EQ(call.session, "k");
  EXPECT_EQ(call.top_logprobs, 4);
  const v1::GenerateRequest request = OnlyChoice(call);
  const v1::SamplingParams& sampling = request.sampling();
  EXPECT_EQ(sampling.temperature(), 0.5F);
  EXPECT_EQ(sampling.top_p(), 0.9F);
  EXPECT_EQ(sampling.top_k(), 40);
  EXPECT_EQ(sampling.min_p(), 0.1F);
  EXPECT_EQ(sampling.seed(), 0xffffffffffffffff);
  EXPECT_EQ(sampling.presence_penalty(), 1);
  EXPECT_EQ(sampling.frequency_penalty(), -1);
  EXPECT_EQ(sampling.repetition_penalty(), 1.1F);
  ASSERT_EQ(sampling.logit_bias_size(), 2);
  EXPECT_EQ(sampling.logit_bias(0).token(), 5);
  EXPECT_EQ(sampling.logit_bias(1).bias(), 2.5F);
  EXPECT_EQ(request.max_tokens(), 5);
  EXPECT_THAT(request.stop(), ElementsAre("x"));
  EXPECT_THAT(request.stop_token_ids(), ElementsAre(3, 4));
  EXPECT_EQ(request.min_tokens(), 2);
  EXPECT_TRUE(request.ignore_eos());
  EXPECT_EQ(request.priority(), -3);
  EXPECT_EQ(request.label(), "u");
  EXPECT_EQ(request.logprobs(), 4);
  EXPECT_EQ(request.input().chat().template_arguments(), R"({"a":1})");
}

TEST(Requests, OfSeveralChoicesHaveASeedEach) {
  const Call call = Completion(R"("prompt": ["a", [1, 2]], "n": 2, "seed": 7)");
  EXPECT_EQ(call.per_prompt, 2);
  ASSERT_EQ(call.choices.size(), 4);
  EXPECT_EQ(call.choices[1].input().text(), "a");
  EXPECT_THAT(call.choices[2].input().tokens().ids(), ElementsAre(1, 2));
  EXPECT_EQ(call.choices[0].sampling().seed(), 7);
  EXPECT_EQ(call.choices[1].sampling().seed(), 8);
  EXPECT_EQ(call.choices[2].sampling().seed(), 7);
  for (const v1::GenerateRequest& choice : Completion(R"("prompt": "a", "n": 2)").choices) {
    EXPECT_FALSE(choice.sampling().has_seed());
  }
}

TEST(Requests, PassMessagesOnToTheTemplate) {
  const auto body = ParseJson(R"({"messages": [
      {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
       "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
      {"role": "tool", "content": "2", "tool_call_id": "1", "name": null}]})");
  const v1::GenerateRequest request = OnlyChoice(*ReadChat(*body));
  const v1::Chat& chat = request.input().chat();
  ASSERT_EQ(chat.messages_size(), 3);
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(0).content(), "a\nb");
  EXPECT_EQ(chat.messages(0).fields(), "");
  EXPECT_THAT(chat.messages(1).fields(), HasSubstr(R"("arguments":{"x":1})"));
  EXPECT_EQ(chat.messages(2).fields(), R"({"tool_call_id":"1"})");
}

TEST(Requests, AskForFormsOfTheAnswer) {
  const auto format = [](const std::string& fields) { return OnlyChoice(Chat(fields)).format(); };
  EXPECT_EQ(format(R"(, "response_format": {"type": "text"})").kind_case(),
            v1::OutputFormat::KIND_NOT_SET);
  EXPECT_EQ(format(R"(, "response_format": {"type": "json_object"})").json_schema(),
            R"({"type":"object"})");
  EXPECT_EQ(format(R"(, "response_format": {"type": "json_schema", "json_schema":
                      {"name": "n", "schema": {"type": "null"}}})")
                .json_schema(),
            R"({"type":"null"})");
  EXPECT_EQ(format(R"(, "guided_json": "{}")").json_schema(), "{}");
  EXPECT_EQ(format(R"(, "guided_regex": "a+")").regex(), "a+");
  EXPECT_EQ(format(R"(, "guided_choice": ["a.b", "c"])").regex(), R"((a\.b)|(c))");
  EXPECT_EQ(format(R"(, "structured_outputs": {"grammar": "start: a"})").grammar(), "start: a");
  EXPECT_EQ(format(R"(, "structured_outputs": {"json_object": true})").json_schema(),
            R"({"type":"object"})");
}

TEST(Requests, ChooseTools) {
  const std::string tools = R"(, "tools": [{"type": "function", "function":
      {"name": "f", "parameters": {"type": "object", "properties": {}}}}])";
  const Call free = Chat(tools);
  EXPECT_EQ(free.tools, ToolParsing::kTagged);
  EXPECT_THAT(OnlyChoice(free).input().chat().tools(), HasSubstr(R"("name":"f")"));
  const Call none = Chat(tools + R"(, "tool_choice": "none")");
  EXPECT_EQ(none.tools, ToolParsing::kNone);
  EXPECT_EQ(OnlyChoice(none).input().chat().tools(), "");
  const Call any = Chat(tools + R"(, "tool_choice": "required")");
  EXPECT_EQ(any.tools, ToolParsing::kAny);
  EXPECT_THAT(OnlyChoice(any).format().json_schema(), HasSubstr(R"("name":{"const":"f"})"));
  const Call forced =
      Chat(tools + R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(forced.tools, ToolParsing::kForced);
  EXPECT_EQ(forced.forced_tool, "f");
  EXPECT_EQ(OnlyChoice(forced).format().json_schema(), R"({"type":"object","properties":{}})");
  const Call parts = Chat(R"(, "tool_choice": "required", "tools": [{"type": "function",
      "function": {"name": "f", "parameters": {"$defs": {"A": {"type": "null"}}, "properties": {
          "default": {"$ref": "#/$defs/A"}, "b": {"items": {"$ref": "#"}},
          "c": {"const": {"$ref": "#/c"}}}}}}])");
  const std::string schema = OnlyChoice(parts).format().json_schema();
  EXPECT_THAT(schema, HasSubstr(R"("default":{"$ref":"#/anyOf/0/properties/arguments/$defs/A"})"));
  EXPECT_THAT(schema, HasSubstr(R"("items":{"$ref":"#/anyOf/0/properties/arguments"})"));
  EXPECT_THAT(schema, HasSubstr(R"({"const":{"$ref":"#/c"}})"));
  const Call without = Chat(R"(, "tools": [{"type": "function", "function": {"name": "f"}}],
      "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(OnlyChoice(without).format().json_schema(),
            R"({"type":"object","properties":{},"additionalProperties":false})");
}

// The answer then has its properties in that order, such as the reasons before the result.
TEST(Requests, KeepTheOrderOfASchema) {
  std::string names;
  for (int i = 40; i > 0; --i) absl::StrAppend(&names, i == 40 ? "" : ",", "\"p", i, "\":{}");
  const std::string schema = "{\"properties\":{" + names + "},\"$defs\":{\"z\":{},\"a\":{}}}";
  EXPECT_EQ(OnlyChoice(Chat(", \"guided_json\": " + schema)).format().json_schema(), schema);
  const Call any = Chat(R"(, "tool_choice": "required", "tools": [{"type": "function",
      "function": {"name": "f", "parameters": )" +
                        schema + "}}]");
  EXPECT_THAT(OnlyChoice(any).format().json_schema(), HasSubstr(schema));
  EXPECT_THAT(OnlyChoice(any).format().json_schema(),
              HasSubstr(R"("properties":{"name":{"const":"f"},"arguments":{)"));
  EXPECT_THAT(OnlyChoice(any).input().chat().tools(),
              HasSubstr(R"([{"type":"function","function":)"));
}

TEST(Requests, MayHaveLargeObjects) {
  std::string biases;
  for (int i = 0; i < 50'000; ++i) absl::StrAppend(&biases, i == 0 ? "" : ",", "\"", i, "\":1");
  const Call call = Chat(", \"logit_bias\": {" + biases + ",\"7\":2}");
  ASSERT_EQ(OnlyChoice(call).sampling().logit_bias_size(), 50'000);
  EXPECT_EQ(OnlyChoice(call).sampling().logit_bias(7).bias(), 2);
}

TEST(Requests, SteerTheCache) {
  const auto cache = [](const std::string& fields) {
    return OnlyChoice(Chat(R"(, "cache": {)" + fields + "}")).cache();
  };
  const v1::CacheOptions all = cache(R"("policy": "snap_kv:window=32", "budget": 512,
      "sink_tokens": 16, "recent_tokens": 32, "schedule": "pyramid", "mode": "synchronous",
      "compaction": "streamed", "compaction_stride_tokens": 256, "layers": "shared",
      "prompt_share": 0.5, "protect_ends": 0.25, "segments": 4)");
  EXPECT_EQ(all.policy().snap_kv().window(), 32);
  EXPECT_EQ(all.budget_tokens(), 512);
  EXPECT_EQ(all.sink_tokens(), 16);
  EXPECT_EQ(all.recent_tokens(), 32);
  EXPECT_EQ(all.budget_schedule(), v1::BUDGET_SCHEDULE_PYRAMID);
  EXPECT_EQ(all.eviction_mode(), v1::EVICTION_MODE_SYNCHRONOUS);
  EXPECT_EQ(all.compaction(), v1::COMPACTION_STREAMED);
  EXPECT_EQ(all.compaction_stride_tokens(), 256);
  EXPECT_EQ(all.layers(), v1::LAYERS_SHARED);
  EXPECT_EQ(all.prompt_share(), 0.5F);
  EXPECT_EQ(all.protect_ends(), 0.25F);
  EXPECT_EQ(all.segments(), 4);
  EXPECT_EQ(cache(R"("budget": 0.25)").budget_share(), 0.25F);
  EXPECT_EQ(cache(R"("budget": 1.0)").budget_share(), 1.0F);
  EXPECT_EQ(cache(R"("budget": 1)").budget_tokens(), 1);
  EXPECT_THAT(cache(R"("budget": [64, 32])").layer_budget_tokens(), ElementsAre(64, 32));
}

struct StatusRow {
  absl::Status status;
  int http;
  std::string param;
};

TEST(Errors, HaveTheirStatusAndTheFieldOfOpenAi) {
  const std::vector<StatusRow> rows = {
      {FieldError("a.b", "'a.b' is wrong"), 400, "a.b"},
      {absl::InvalidArgumentError("sampling.top_p is 2; it must be at most 1"), 400, "top_p"},
      {absl::InvalidArgumentError("input.chat.messages[0].role must not be empty"), 400,
       "messages[0].role"},
      {absl::InvalidArgumentError("input.tokens.ids[1] is 900, the vocabulary has 300 tokens"), 400,
       "prompt[1]"},
      {absl::InvalidArgumentError("input is 9 tokens long"), 400, "prompt"},
      {absl::InvalidArgumentError("max_tokens is 9; with the input's"), 400, "max_tokens"},
      {absl::InvalidArgumentError("label is 300 bytes long"), 400, "user"},
      {absl::InvalidArgumentError("the budget is wrong"), 400, ""},
      {absl::FailedPreconditionError("the model has no chat template"), 400, ""},
      {absl::UnauthenticatedError("no"), 502, ""},
      {absl::PermissionDeniedError("no"), 403, ""},
      {absl::NotFoundError("no"), 404, ""},
      {absl::ResourceExhaustedError("the pool is full"), 429, ""},
      {absl::CancelledError("no"), 499, ""},
      {absl::InternalError("no"), 500, ""},
      {absl::DataLossError("no"), 500, ""},
      {absl::UnavailableError("no"), 503, ""},
      {absl::DeadlineExceededError("no"), 504, ""}};
  for (const StatusRow& row : rows) {
    const ApiError error = ErrorOf(row.status);
    EXPECT_EQ(error.http, row.http) << row.status;
    EXPECT_EQ(error.param, row.param) << row.status;
    EXPECT_EQ(error.retry_after > 0, row.http == 429 || row.http == 503);
    EXPECT_TRUE(ParseJson(ErrorBody(error)).ok());
  }
}

TEST(JsonText, EscapesWhatJsonCannotHold) {
  std::string out;
  AppendJsonString(
      "a\"\\\n\r\t\x01\x1f\x7f"
      "é",
      &out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\r\\t\\u0001\\u001f\x7fé\"");
  EXPECT_EQ(ParseJson(out)->get<std::string>(),
            "a\"\\\n\r\t\x01\x1f\x7f"
            "é");
  EXPECT_EQ(LossyUtf8("a\xff"), "a\xEF\xBF\xBD");
  // Brackets in strings have no depth.
  EXPECT_TRUE(ParseJson("\"" + std::string(1000, '[') + "\\\"[\"").ok());
  EXPECT_FALSE(ParseJson(std::string(65, '[') + std::string(65, ']')).ok());
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']')).ok());
}

}  // namespace
}  // namespace folio::gateway
