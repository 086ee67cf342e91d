// Chats with tools, fields and arguments are rendered as Hugging Face's transformers render them,
// what they contain forges no turn, and what is wrong with them is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/model/tokenizer/tokenizer.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::ordered_json;

std::string FileOf(const std::string& name) {
  std::ifstream file(std::string(FOLIO_ORACLE) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::unique_ptr<Tokenizer> WithTemplate(const std::string& source) {
  TokenizerSpec spec;
  spec.tokenizer_json = folio::testing::TinyTokenizerJson().dump();
  spec.chat_template = source;
  return Tokenizer::Create(spec, folio::testing::kTinyVocab).value();
}

std::unique_ptr<Tokenizer> WithTools() { return WithTemplate(FileOf("tool_template.jinja")); }

Message MessageOf(json row) {
  Message message{row["role"], row["content"]};
  row.erase("role");
  row.erase("content");
  if (!row.empty()) message.fields = row.dump();
  return message;
}

TEST(ToolChatTest, RendersAsTheOracle) {
  const auto tokenizer = WithTools();
  const json rows = json::parse(FileOf("tool_chats.json"));
  ASSERT_GE(rows.size(), 10U);
  for (const json& row : rows) {
    std::vector<Message> messages;
    for (const json& message : row["messages"]) messages.push_back(MessageOf(message));
    ChatOptions options;
    if (row.contains("tools")) options.tools = row["tools"].dump();
    if (row.contains("arguments")) options.arguments = row["arguments"].dump();
    const auto chat = tokenizer->RenderChat(messages, options);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(chat->text, row["text"].get<std::string>());
    EXPECT_TRUE(chat->cuts.empty());
  }
}

TEST(ToolChatTest, WhatIsWrongIsTold) {
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  std::string many = "[0";
  for (size_t i = 0; i < kMaxChatValues; ++i) many += ",0";
  many += ']';
  const struct {
    std::string fields, tools, arguments, problem;
  } cases[] = {
      {"{", "", "", "messages[0].fields is not JSON: parse error at line 1, column 2"},
      {"[]", "", "", "messages[0].fields must be a JSON object"},
      {"{} x", "", "", "messages[0].fields is not JSON"},
      {"{\"a\": \"\xFF\"}", "", "", "messages[0].fields is not JSON"},
      {R"({"role": "system"})", "", "", "messages[0].fields has role, which the message itself"},
      {R"({"content": null})", "", "", "messages[0].fields has content, which the message itself"},
      {"{\"a\": " + deep + "}", "", "", "messages[0].fields is nested deeper than 64 levels"},
      {"", "{}", "", "tools must be a JSON array"},
      {"", "[1,]", "", "tools is not JSON: parse error at line 1, column 4"},
      {"", deep, "", "tools is nested deeper than 64 levels"},
      {"", many, "", "tools has too much: fields, tools and template_arguments may have 20000"},
      {"", "", "3", "template_arguments must be a JSON object"},
      {"", "", "nul", "template_arguments is not JSON"},
      {"", "", R"({"messages": []})",
       "template_arguments has messages, which cannot be overridden"},
      {"", "", R"({"bos_token": ""})", "template_arguments has bos_token, which cannot be"},
      {"", "", R"({"raise_exception": 1})", "template_arguments has raise_exception, which"},
      {"", "", R"({"tools": []})", "template_arguments has tools, which cannot be overridden"},
  };
  const auto tokenizer = WithTools();
  for (const auto& [fields, tools, arguments, problem] : cases) {
    const auto chat = tokenizer->RenderChat({{"user", "Hi", fields}}, {tools, arguments});
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument) << problem;
    EXPECT_THAT(std::string(chat.status().message()), HasSubstr(problem));
  }
}

// Names too, and texts that JSON spells with escapes.
TEST(ToolChatTest, SpecialTokensAreTextEverywhere) {
  const auto tokenizer = WithTemplate(
      "<|im_start|>{{ messages | tojson }}{{ tools | tojson(indent=1) }}{{ extra | tojson }}"
      "<|im_end|>");
  const auto chat = tokenizer->RenderChat(
      {{"a<|im_end|>", "<|im_start|>",
        R"({"name": "\u003c|im_end|>", "<|endoftext|>": {"n": 1}})"}},
      {R"([{"<|im_start|>": ["x<|im_end|>y"]}, true])", R"({"extra": "<|im_start|\u003e"})"});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->text,
            "<|im_start|>[{\"role\": \"a<|im_end|>\", \"content\": \"<|im_start|>\", \"name\": "
            "\"<|im_end|>\", \"<|endoftext|>\": {\"n\": 1}}][\n {\n  \"<|im_start|>\": [\n   "
            "\"x<|im_end|>y\"\n  ]\n },\n true\n]\"<|im_start|>\"<|im_end|>");
  EXPECT_EQ(chat->cuts.size(), 7U);
  const auto specials = [&](const std::vector<TokenId>& ids) {
    return std::count_if(ids.begin(), ids.end(),
                         [&](TokenId id) { return tokenizer->IsSpecial(id); });
  };
  EXPECT_EQ(specials(tokenizer->EncodeChat(*chat).value()), 2);
  EXPECT_EQ(specials(tokenizer->Encode(chat->text).value()), 9);
}

// The memory that a template may take suffices for the most values of any shape, so that no client
// can use up a template.
TEST(ToolChatTest, TheMostValuesHaveRoom) {
  const auto tokenizer = WithTemplate(
      "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ tools | tojson | length > 9 }}");
  for (const std::string value :
       {"[]", "{}", "\"\"", "\"some words of a text\"", "1.5", "{\"a\":[]}"}) {
    const size_t values = (kMaxChatValues - 1) / (value.find('a') == 2 ? 2 : 1);
    std::string tools = "[" + value;
    for (size_t i = 1; i < values; ++i) tools += "," + value;
    const auto chat = tokenizer->RenderChat({{"user", "Hi"}}, {tools + "]", ""});
    ASSERT_TRUE(chat.ok()) << value << ": " << chat.status();
    EXPECT_GT(chat->text.size(), values) << value;
  }
}

}  // namespace
}  // namespace folio::model
