// Answers that are drawn at random under a constraint have its form, and masks are those of a
// search token by token.
#include "services/model/tokenizer/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/model/grammar_walk.h"

namespace folio::model::testing {
namespace {

using folio::testing::kTinyEndOfText;
using folio::testing::kTinyImEnd;
using folio::testing::kTinyImStart;
using folio::testing::kTinyVocab;

TEST(GrammarTest, TheAnswerEndsWhereItMay) {
  const auto tokenizer = TinyTokenizer();
  const auto grammar = Compiled(*tokenizer, GrammarKind::kRegex, "ab?");
  const auto state = grammar->Start().value();
  const auto id = [&](const char* text) { return tokenizer->Encode(text).value().at(0); };
  std::vector<uint32_t> mask = MaskOf(*state, kPadded);
  EXPECT_THAT(Allowed(mask), ::testing::ElementsAre(id("a").value()));
  EXPECT_EQ(state->Accept(TokenId(kTinyImEnd)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(state->Accept(id("b")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(state->Accept(TokenId(kTinyImStart)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(state->Accept(TokenId(kTinyVocab + 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(state->Accept(TokenId(1U << 30)).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(state->Accept(id("a")).ok());
  EXPECT_FALSE(state->stopped());
  mask = MaskOf(*state, kPadded);
  EXPECT_THAT(Allowed(mask),
              ::testing::UnorderedElementsAre(id("b").value(), kTinyEndOfText, kTinyImEnd));
  ASSERT_TRUE(state->Accept(id("b")).ok());
  EXPECT_TRUE(state->stopped());
  EXPECT_THAT(Allowed(MaskOf(*state, kPadded)),
              ::testing::UnorderedElementsAre(kTinyEndOfText, kTinyImEnd));
  EXPECT_EQ(state->Accept(id("b")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(state->Accept(TokenId(kTinyImEnd)).ok());
}

// Answers drawn at random, for whose form `fits` looks.
void ExpectRandomAnswersFit(const Tokenizer& tokenizer, GrammarKind kind, const std::string& text,
                            const std::function<bool(const std::string&)>& fits) {
  const auto grammar = Compiled(tokenizer, kind, text);
  ASSERT_NE(grammar, nullptr);
  const uint64_t seed = std::random_device{}();
  int ended = 0;
  for (uint64_t round = 0; round < 20; ++round) {
    const auto answer = Walk(tokenizer, *grammar, seed + round).Run(400);
    if (!answer.has_value()) continue;
    ++ended;
    EXPECT_TRUE(fits(*answer)) << text << "\nallowed " << *answer << "\nseed " << seed + round;
  }
  EXPECT_GT(ended, 0) << text << "\nno answer ended, seed " << seed;
}

using json = nlohmann::ordered_json;

bool HasKeys(const json& value, const std::vector<std::string>& keys) {
  return value.is_object() && std::all_of(keys.begin(), keys.end(),
                                          [&](const auto& key) { return value.contains(key); });
}

// The white space outside of strings, with a comma or colon for those in front of it.
std::string BlanksOutsideOfStrings(const std::string& text) {
  std::string blanks;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      inside = !inside;
    } else if (!inside && std::strchr(" \t\r\n,:", text[i]) != nullptr) {
      blanks += text[i];
    }
  }
  return blanks;
}

TEST(GrammarTest, RandomAnswersHaveTheSchema) {
  const struct {
    const char* schema;
    bool (*fits)(const json&);
  } cases[] = {
      {"{}", [](const json&) { return true; }},
      {"true", [](const json&) { return true; }},
      {R"({"type": "object"})", [](const json& v) { return v.is_object(); }},
      {R"({"type": "integer", "minimum": -5, "maximum": 120})",
       [](const json& v) { return v.is_number_integer() && v >= -5 && v <= 120; }},
      {R"({"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 9999})",
       [](const json& v) { return v.is_number_integer() && v.get<int>() % 7 == 0; }},
      {R"({"enum": ["red", "green", 3, null, {"a": [1]}]})",
       [](const json& v) {
         const json all = {"red", "green", 3, nullptr, {{"a", {1}}}};
         return std::find(all.begin(), all.end(), v) != all.end();
       }},
      {R"({"type": "string", "pattern": "^[a-c]{2,5}$"})",
       [](const json& v) {
         return std::regex_match(v.get<std::string>(), std::regex("[a-c]{2,5}"));
       }},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       [](const json& v) {
         const auto text = v.get<std::string>();
         const auto characters =
             std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
         return characters >= 2 && characters <= 3;
       }},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4})",
       [](const json& v) {
         return v.is_array() && v.size() >= 2 && v.size() <= 4 &&
                std::all_of(v.begin(), v.end(), [](const json& one) { return one.is_boolean(); });
       }},
      {R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
           "tags": {"type": "array", "items": {"enum": ["x", "y"]}}},
           "required": ["name", "age"], "additionalProperties": false})",
       [](const json& v) {
         return HasKeys(v, {"name", "age"}) && v.size() <= 3 && v["age"].is_number_integer() &&
                v.begin().key() == "name";
       }},
      {R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "null"},
           "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"],
           "additionalProperties": false}}, "$ref": "#/$defs/node"})",
       [](const json& v) {
         const json* node = &v;
         while (HasKeys(*node, {"v", "next"})) node = &(*node)["next"];
         return node->is_null();
       }},
      {R"({"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]},
           {"type": "null"}]})",
       [](const json& v) { return v.is_null() || (HasKeys(v, {"k"}) && v["k"] == 1); }},
  };
  const auto tokenizer = TinyTokenizer();
  for (const auto& [schema, fits] : cases) {
    ExpectRandomAnswersFit(*tokenizer, GrammarKind::kJsonSchema, schema, [&](const auto& text) {
      const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
      // A number such as 1e999 is JSON, but no double.
      if (value.is_discarded()) return text.find_first_of("eE") != std::string::npos;
      return fits(value) && std::regex_match(BlanksOutsideOfStrings(text), std::regex("([,:] )*"));
    });
  }
}

TEST(GrammarTest, RandomAnswersMatchTheRegex) {
  const auto tokenizer = TinyTokenizer();
  for (const char* regex : {"[a-z]+@[a-z]+\\.(com|org)", "(yes|no)", "^[0-9]{3}-[0-9]{4}$",
                            "a{2,3}(b|)c*", "x/\"y\"\\\\", "(the|and)( (the|and)){0,5}"}) {
    const std::regex pattern(regex);
    ExpectRandomAnswersFit(*tokenizer, GrammarKind::kRegex, regex,
                           [&](const auto& text) { return std::regex_match(text, pattern); });
  }
}

TEST(GrammarTest, RandomAnswersFollowTheGrammar) {
  const auto balanced = [](const std::string& text) {
    int depth = 0;
    for (const char c : text) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (depth < 0 || (c != '(' && c != ')' && c != 'x')) return false;
    }
    return depth == 0 && !text.empty();
  };
  const auto tokenizer = TinyTokenizer();
  ExpectRandomAnswersFit(*tokenizer, GrammarKind::kLark,
                         "start: item+\nitem: \"x\" | \"(\" item* \")\"\n", balanced);
  ExpectRandomAnswersFit(*tokenizer, GrammarKind::kLark,
                         "start: \"n=\" %json {\"type\": \"integer\", \"minimum\": 0}",
                         [](const std::string& text) {
                           return std::regex_match(text, std::regex("n=(0|[1-9]\\d*)"));
                         });
  // Special tokens are allowed where they are named.
  const auto named = Compiled(*tokenizer, GrammarKind::kLark, "start: <|im_start|> \"a\"");
  const auto state = named->Start().value();
  EXPECT_THAT(Allowed(MaskOf(*state, kPadded)), ::testing::ElementsAre(kTinyImStart));
  EXPECT_TRUE(state->Accept(TokenId(kTinyImStart)).ok());
}

// Each token is tried on a copy that has accepted the same tokens.
TEST(GrammarTest, MasksAreThoseOfASearch) {
  const auto tokenizer = TinyTokenizer();
  const std::pair<GrammarKind, const char*> cases[] = {
      {GrammarKind::kJsonSchema,
       R"({"type": "object", "properties": {"the": {"type": "string"}}})"},
      {GrammarKind::kRegex, "(the|an?d|\u00E9)*[^a]"},
      {GrammarKind::kLark, "start: (\"the\" | \"and\" start)+ | <|im_start|>"},
  };
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const auto& [kind, text] : cases) {
    const auto grammar = Compiled(*tokenizer, kind, text);
    std::vector<TokenId> taken;
    for (int step = 0; step < 6; ++step) {
      const auto at = [&] {
        auto state = grammar->Start().value();
        for (const TokenId token : taken) EXPECT_TRUE(state->Accept(token).ok());
        return state;
      };
      const auto state = at();
      if (state->stopped()) break;
      const std::vector<uint32_t> mask = MaskOf(*state, kPadded);
      for (uint32_t token = 0; token < kPadded; ++token) {
        EXPECT_EQ(at()->Accept(TokenId(token)).ok(), Allows(mask, token))
            << text << " after " << taken.size() << " tokens, token " << token;
      }
      std::vector<uint32_t> allowed = Allowed(mask);
      allowed.erase(std::remove_if(allowed.begin(), allowed.end(),
                                   [&](uint32_t t) { return tokenizer->IsEos(TokenId(t)); }),
                    allowed.end());
      if (allowed.empty()) break;
      taken.emplace_back(allowed[random() % allowed.size()]);
    }
  }
}

// The tree of all tokens is built once, whoever comes first, and states do not disturb each other.
TEST(GrammarTest, ThreadsCompileAndFollowAtOnce) {
  const auto tokenizer = TinyTokenizer();
  std::vector<std::thread> threads;
  std::vector<std::string> answers(8);
  for (size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto grammar =
          Compiled(*tokenizer, GrammarKind::kJsonSchema, "{\"type\": \"boolean\"}");
      for (int round = 0; round < 20; ++round) {
        answers[i] = Walk(*tokenizer, *grammar, i + round).Run(10).value_or("");
        EXPECT_TRUE(answers[i] == "true" || answers[i] == "false") << answers[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto grammar = Compiled(*tokenizer, GrammarKind::kRegex, "[a-z]{4}");
  threads.clear();
  for (std::string& answer : answers) {
    threads.emplace_back([&] { answer = Walk(*tokenizer, *grammar, 1).Run(10).value_or(""); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : answers) EXPECT_EQ(answer, answers[0]);
  EXPECT_EQ(answers[0].size(), 4U);
}

// A state outlives its grammar and the tokenizer.
TEST(GrammarTest, AStateOwnsWhatItNeeds) {
  auto tokenizer = TinyTokenizer();
  auto grammar = Compiled(*tokenizer, GrammarKind::kLark, "start: text\ntext[stop=\"\"]: /[a-z]+/");
  const auto state = grammar->Start().value();
  const TokenId letter = tokenizer->Encode("q").value().at(0);
  grammar.reset();
  tokenizer.reset();
  EXPECT_FALSE(Allows(MaskOf(*state, kPadded), kTinyImEnd));
  ASSERT_TRUE(state->Accept(letter).ok());
  EXPECT_TRUE(Allows(MaskOf(*state, kPadded), kTinyImEnd));
  EXPECT_TRUE(state->Accept(TokenId(kTinyImEnd)).ok());
  EXPECT_TRUE(state->stopped());
}

}  // namespace
}  // namespace folio::model::testing
