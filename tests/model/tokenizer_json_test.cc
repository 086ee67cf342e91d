// Tokenizers and chat templates made here: a vocabulary of words, damaged ones, what templates use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/model/tokenizer/tokenizer.h"

namespace folio::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A vocabulary of words with bytes to fall back on, as SentencePiece makes them.
constexpr char kWords[] = R"({
  "version": "1.0", "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "\u2581"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
  "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
  "padding": null, "pre_tokenizer": null,
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}]},
  "added_tokens": [{"id": 1, "content": "<s>", "single_word": false, "lstrip": false,
    "rstrip": false, "normalized": false, "special": true}],
  "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true,
    "byte_fallback": true, "vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "<0xC3>": 3, "<0xA9>": 4,
      "\u2581": 5, "a": 6, "\u2581a": 7}, "merges": ["\u2581 a"]}})";

TEST(TokenizerTest, WordsWithByteFallback) {
  TokenizerSpec spec;
  spec.tokenizer_json = kWords;
  const auto tokenizer = Tokenizer::Create(spec, 8);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = (*tokenizer)->Encode("a a\n\u00E9");
  ASSERT_TRUE(ids.ok()) << ids.status();
  // Neither the truncation nor the post-processor's <s> applies.
  EXPECT_THAT(*ids, ElementsAre(TokenId(7), TokenId(7), TokenId(2), TokenId(3), TokenId(4)));
  std::string bytes;
  for (const TokenId id : *ids) bytes += (*tokenizer)->TokenBytes(id).value();
  EXPECT_EQ(bytes, " a a\n\u00E9");
  EXPECT_FALSE((*tokenizer)->has_chat_template());
  EXPECT_EQ((*tokenizer)->RenderChat({{"user", "Hi"}}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TokenizerTest, MalformedJsonIsRefused) {
  std::string truncated = kWords;
  truncated.resize(truncated.size() / 2);
  std::string far_id = kWords;
  far_id.replace(far_id.find("\"a\": 6"), 6, "\"a\": 4294967295");
  for (const std::string& json :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"model\": 3}"),
        std::string("\xFF"), std::string(100'000, '['), truncated, far_id}) {
    TokenizerSpec spec;
    spec.tokenizer_json = json;
    const auto tokenizer = Tokenizer::Create(spec, 8);
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << json.substr(0, 50);
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json"));
  }
}

TEST(TokenizerTest, DamagedUnigramModelsAreRefused) {
  const auto message = [](const std::string& model) {
    TokenizerSpec spec;
    spec.tokenizer_json = R"({"version": "1.0", "model": {"type": "Unigram", )" + model + "}}";
    const auto tokenizer = Tokenizer::Create(spec, 8);
    EXPECT_EQ(tokenizer.ok() || absl::IsInvalidArgument(tokenizer.status()), true);
    return std::string(tokenizer.status().message());
  };
  const std::string long_piece(1025, 'a');
  EXPECT_EQ(message(R"("unk_id": 0, "vocab": [["<unk>", 0], ["a", -1]])"), "");
  EXPECT_THAT(message(R"("vocab": [["a", -1]])"), HasSubstr("model.unk_id: missing"));
  EXPECT_THAT(message(R"("unk_id": 1, "vocab": [["a", -1]])"), HasSubstr("model.unk_id is 1"));
  EXPECT_THAT(message(R"("unk_id": 0, "vocab": [])"), HasSubstr("model.unk_id is 0"));
  EXPECT_THAT(message(R"("unk_id": 0, "vocab": [["b", 0], [")" + long_piece + R"(", -1]])"),
              HasSubstr("model.vocab[1] has 1025 bytes"));
  EXPECT_THAT(message(R"("unk_id": 0, "vocab": [["a", 1e999]])"), HasSubstr("out of range"));
  EXPECT_THAT(message(R"("unk_id": 0, "vocab": [["a"]])"), HasSubstr("tokenizer.json"));
}

absl::StatusOr<std::string> Render(const std::string& source, const std::string& content = "Hi") {
  TokenizerSpec spec;
  spec.tokenizer_json = kWords;
  spec.chat_template = source;
  spec.bos_token = "<s>";
  spec.eos_token = "</s>";
  auto chat =
      Tokenizer::Create(spec, 8).value()->RenderChat({{"system", "S"}, {"user", content}}, {});
  if (!chat.ok()) return chat.status();
  return chat->text;
}

TEST(ChatTemplateTest, SpeaksWhatTemplatesUse) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ bos_token }}{{ messages[1]['content'].strip() }}{{ eos_token }}", "<s>Hi</s>"},
      {"{% if messages[0].role.startswith('sys') %}yes{% endif %}", "yes"},
      {"{%- for m in messages[1:] %}\n  {% if loop.first %}\n{{ m.role | upper }}\n"
       "  {% endif %}\n{%- endfor %}\n",
       "USER\n"},
      {"{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
       "{% endfor %}{{ ns.n }}",
       "2"},
      {"{{ messages | tojson }}",
       "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"Hi\"}]"},
      {"{{ {'a': ['<', '\u00E9']} | tojson }}", "{\"a\": [\"<\", \"\u00E9\"]}"},
      {"{{ {'a': 1} | tojson(indent=2) }}", "{\n  \"a\": 1\n}"},
      {"{% if tools is none and documents is none %}no tools{% endif %}", "no tools"},
      {"{% if add_generation_prompt %}go{% endif %}{{ missing }}", "go"},
      {"{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f('a' ~ 1) }}", "[a1]"},
      {"{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}x{% endfor %}", "x"},
      {"{{ messages[1].get('tool_calls') is none }}{{ messages[1].content.split('i')[0] }}",
       "TrueH"},
      {"{{ strftime_now('%Y-%m-%d') | length }}", "10"},
  };
  for (const auto& [source, wanted] : cases) {
    const auto text = Render(source);
    ASSERT_TRUE(text.ok()) << source << ": " << text.status();
    EXPECT_EQ(*text, wanted) << source;
  }
}

TEST(ChatTemplateTest, ContentIsNoTemplateAndNotEscaped) {
  EXPECT_EQ(Render("{{ messages[1].content }}", "{{ 1 + 1 }} <&> \"'").value(),
            "{{ 1 + 1 }} <&> \"'");
}

TEST(ChatTemplateTest, ItsErrorsAreTold) {
  std::string loops;
  for (int i = 0; i < 6; ++i) loops += "{% for i" + std::to_string(i) + " in range(1000) %}";
  loops += 'x';
  for (int i = 0; i < 6; ++i) loops += "{% endfor %}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{% if %}", "chat template: syntax error"},
      {"{% for m in messages %}", "chat template: syntax error"},
      {"{{ raise_exception('roles must alternate') }}", "roles must alternate"},
      {"{{ messages | no_such_filter }}", "no_such_filter"},
      {"{{ missing.field }}", "undefined"},
      {"{{ strftime_now('%Q') }}", "%Q is not supported"},
      {"{% include 'other' %}", "other"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"},
      {std::string(10'000, '(').insert(0, "{{"), "chat template"},
      {loops, "fuel"},
      {"\xFF", "not UTF-8"},
  };
  for (const auto& [source, wanted] : cases) {
    const auto text = Render(source);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << source.substr(0, 80);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr(wanted)) << source.substr(0, 80);
  }
}

std::unique_ptr<Tokenizer> WithTemplate(const std::string& source) {
  TokenizerSpec spec;
  spec.tokenizer_json = kWords;
  spec.chat_template = source;
  return Tokenizer::Create(spec, 8).value();
}

std::string Loop(const std::string& body, int times) {
  return "{% set ns = namespace(x='aaaaaaaa', l=[]) %}{% for i in range(" + std::to_string(times) +
         ") %}" + body + "{% endfor %}";
}

// A few hundred steps reach petabytes, so that the fuel does not help.
TEST(ChatTemplateTest, MemoryIsBounded) {
  std::string straight = "{% set x = 'aaaaaaaa' %}";
  for (int i = 0; i < 60; ++i) straight += "{% set x = x ~ x %}";
  const std::string deep = "{% for j in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}";
  const std::pair<const char*, std::string> cases[] = {
      {"concatenation", Loop("{% set ns.x = ns.x ~ ns.x %}", 60)},
      {"addition", Loop("{% set ns.x = ns.x + ns.x %}", 60)},
      {"no loop", straight},
      {"filter", Loop("{% set ns.x = ns.x | replace('a', 'aa') %}", 60)},
      {"block", Loop("{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}", 60)},
      {"output", Loop("{% for j in range(10000) %}{{ 'aaaaaaaa' * 1000 }}{% endfor %}", 1000)},
      {"nesting", Loop(deep, 1000)},
      {"printed nesting", Loop(deep, 30) + "{{ ns.l }}{{ ns.l | tojson }}" + Loop(deep, 1000)},
      {"cycle", "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"},
  };
  for (const auto& [name, source] : cases) {
    const auto text = WithTemplate(source)->RenderChat({{"user", "Hi"}}, {});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(text.status().message()),
                HasSubstr("chat template: needs more than 64 MiB of memory"))
        << name;
  }
}

TEST(ChatTemplateTest, FailuresThatKeepMemoryEndItsUse) {
  const auto greedy = WithTemplate("{% if messages[0].content == 'much' %}" +
                                   Loop("{% set ns.x = ns.x ~ ns.x %}", 60) + "{% endif %}fine");
  EXPECT_EQ(greedy->RenderChat({{"user", "little"}}, {}).value().text, "fine");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(greedy->RenderChat({{"user", "much"}}, {}).ok());
  EXPECT_THAT(std::string(greedy->RenderChat({{"user", "little"}}, {}).status().message()),
              HasSubstr("chat template: is not used any more, because it needed too much"));
#ifndef __SANITIZE_ADDRESS__  // which reports the leak
  // A cycle of values is never freed, although the rendering succeeds.
  const auto cycle =
      WithTemplate(Loop("{% set ns.x = ns.x ~ ns.x %}", 20) + "{% set ns.me = ns %}fine");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(cycle->RenderChat({{"user", "Hi"}}, {}).value().text, "fine");
  EXPECT_FALSE(cycle->RenderChat({{"user", "Hi"}}, {}).ok());
#endif
}

TEST(ChatTemplateTest, LongChatsHaveRoom) {
  const auto copies = WithTemplate(
      "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all ~ m.content %}"
      "{% endfor %}{{ ns.all | length }} {{ messages | tojson | length > 2000000 }}"
      "{{ ns.all.split('b') | length }}");
  const std::vector<Message> messages(1000, {"user", std::string(1999, 'a') + 'b'});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(copies->RenderChat(messages, {}).value().text, "2000000 True1001");
}

TEST(ChatTemplateTest, SpecialTokensInMessagesAreText) {
  const auto tokenizer = WithTemplate("<s>{{ messages[0].role }}:{{ messages[0].content }}");
  const auto chat = tokenizer->RenderChat({{"a<s>", "aa<s>a<<s>"}}, {});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->text, "<s>a<s>:aa<s>a<<s>");
  EXPECT_THAT(chat->cuts, ElementsAre(5U, 11U, 16U));
  const auto count = [](const std::vector<TokenId>& ids) {
    return std::count(ids.begin(), ids.end(), TokenId(1));
  };
  EXPECT_EQ(count(tokenizer->EncodeChat(*chat).value()), 1);
  EXPECT_EQ(count(tokenizer->Encode(chat->text).value()), 4);
  // A message may contain the character that would have been the mark.
  const auto other = tokenizer->RenderChat({{"a", "\uE000<s>\uE001"}}, {});
  EXPECT_EQ(other->text, "<s>a:\uE000<s>\uE001");
  EXPECT_THAT(other->cuts, ElementsAre(9U));
  EXPECT_TRUE(tokenizer->RenderChat({{"a", "<\uE000s>"}}, {})->cuts.empty());
}

TEST(ChatTemplateTest, AChatMayUseUpAllMarks) {
  std::string content = "<s>";
  for (int i = 0; i < 6400; ++i) {
    content += static_cast<char>(i < 4096 ? 0xEE : 0xEF);
    content += static_cast<char>(0x80 | (i >> 6 & 0x3F));
    content += static_cast<char>(0x80 | (i & 0x3F));
  }
  const auto tokenizer = WithTemplate("{{ messages[0].content }}");
  EXPECT_THAT(std::string(tokenizer->RenderChat({{"user", content}}, {}).status().message()),
              HasSubstr("all characters from U+E000 to U+F8FF"));
  content.resize(content.size() - 3);
  EXPECT_EQ(tokenizer->RenderChat({{"user", content}}, {}).value().text, content);
}

}  // namespace
}  // namespace folio::model
