// Templates of all families, and what they are made of, are rendered as Hugging Face's transformers
// render them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using json = nlohmann::ordered_json;

std::string FileOf(const std::string& name) {
  std::ifstream file(std::string(FOLIO_ORACLE) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

const json& Rows() {
  static const json& rows = *new json(json::parse(FileOf("chat_templates.json")));
  return rows;
}

std::unique_ptr<Tokenizer> WithTemplate(const json& row) {
  TokenizerSpec spec;
  spec.tokenizer_json = folio::testing::TinyTokenizerJson().dump();
  spec.chat_template =
      row.contains("template")
          ? row["template"].get<std::string>()
          : FileOf(absl::StrCat("templates/", row["family"].get<std::string>(), ".jinja"));
  spec.bos_token = "<s>";
  spec.eos_token = "</s>";
  return Tokenizer::Create(spec, folio::testing::kTinyVocab).value();
}

absl::StatusOr<ChatText> Rendered(const json& row) {
  std::vector<Message> messages;
  for (json fields : row["messages"]) {
    Message message{fields["role"], fields["content"]};
    fields.erase("role");
    fields.erase("content");
    if (!fields.empty()) message.fields = fields.dump();
    messages.push_back(std::move(message));
  }
  ChatOptions options;
  if (row.contains("tools")) options.tools = row["tools"].dump();
  if (row.contains("arguments")) options.arguments = row["arguments"].dump();
  return WithTemplate(row)->RenderChat(messages, options);
}

// `text` with the day in place of "<%Y>".
std::string OnDay(const std::string& text, const std::tm& day) {
  std::string dated;
  for (size_t i = 0; i < text.size();) {
    const size_t end = text.find('>', i);
    if (text.compare(i, 2, "<%") != 0 || end == std::string::npos) {
      dated += text[i++];
      continue;
    }
    char part[64];
    dated.append(part,
                 std::strftime(part, sizeof part, text.substr(i + 1, end - i - 1).c_str(), &day));
    i = end + 1;
  }
  return dated;
}

std::tm Today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  localtime_r(&now, &day);
  return day;
}

class ChatTemplate : public ::testing::TestWithParam<size_t> {};

TEST_P(ChatTemplate, IsRenderedAsTheOracle) {
  const json& row = Rows()[GetParam()];
  const std::tm before = Today();
  const absl::StatusOr<ChatText> chat = Rendered(row);
  const std::tm after = Today();
  if (row.contains("error")) {
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument)
        << (chat.ok() ? chat->text : "");
    EXPECT_THAT(std::string(chat.status().message()), HasSubstr(row["error"].get<std::string>()));
    return;
  }
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::string text = row["text"];
  EXPECT_THAT(chat->text, AnyOf(OnDay(text, before), OnDay(text, after)));
}

std::vector<size_t> Numbers() {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < Rows().size(); ++i) numbers.push_back(i);
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Oracle, ChatTemplate, ::testing::ValuesIn(Numbers()),
                         [](const ::testing::TestParamInfo<size_t>& info) {
                           return Rows()[info.param]["name"].get<std::string>();
                         });

// A mark in a special token of a message is neither escaped nor lost where Python escapes it.
TEST(ChatTemplateMarks, SurvivePythonsEscapes) {
  const json row = {{"template", "{{ x | string }}{{ x }}{{ x | tojson(ensure_ascii=true) }}"},
                    {"messages", json::array()},
                    {"arguments", {{"x", {"a<|im_end|>\n"}}}}};
  const absl::StatusOr<ChatText> chat = Rendered(row);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->text, "['a<|im_end|>\\n']['a<|im_end|>\\n'][\"a<|im_end|>\\n\"]");
  EXPECT_EQ(chat->cuts.size(), 3U);
}

}  // namespace
}  // namespace folio::model
