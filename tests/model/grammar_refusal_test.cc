// Constraints that cannot be compiled are refused with the place of the fault, and no text makes
// the compiler or an answer take long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/text/utf8.h"
#include "tests/model/grammar_walk.h"

namespace folio::model::testing {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  GrammarKind kind;
  std::string text;
  const char* problem;
};

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::vector<Refusal> Refusals() {
  const auto schema = GrammarKind::kJsonSchema;
  const auto regex = GrammarKind::kRegex;
  const auto lark = GrammarKind::kLark;
  return {
      {schema, "", "JSON Schema: EOF while parsing a value at line 1 column 0"},
      {schema, "{\"type\": ", "JSON Schema: EOF while parsing a value at line 1 column 9"},
      {schema, "[1]", "JSON Schema: must be an object or a boolean"},
      {schema, "false", "JSON Schema: allows nothing"},
      {schema, R"({"type": "foo"})", "JSON Schema: Invalid type: foo"},
      {schema, R"({"properties": {"a": {"uniqueItems": true}}})",
       "the keyword \"uniqueItems\" is not supported (#/properties/a)"},
      {schema, R"({"not": {}})", "the keyword \"not\" is not supported (#)"},
      {schema, R"({"format": "morse"})", "Unknown format: morse"},
      {schema, R"({"$ref": "http://example.com/x"})", "http://example.com/x"},
      {schema, R"({"$ref": "#/$defs/none"})", "none"},
      {schema, R"({"oneOf": [{"type": "object"}, {"type": "object"}]})", "coerce_one_of"},
      {schema, R"({"x-guidance": {"blanks": 1}})", "unknown field `blanks`"},
      {schema, R"({"x-guidance": 1})", "x-guidance must be an object"},
      {schema, R"({"$ref": "#"})", "no text fits"},
      {schema, Repeated("{\"items\": ", 5000), "recursion limit exceeded"},
      {schema, R"({"type": "array", "maxItems": 1000000000})",
       "maxItems is 1000000000, the most is 10000 (#/maxItems)"},
      {schema, R"({"properties": {"a": {"minItems": 1e300}}})",
       "the most is 10000 (#/properties/a/minItems)"},
      {schema, R"({"items": {"type": "integer", "multipleOf": 1000003}})",
       "multipleOf is 1000003, the most is 10000 (#/items/multipleOf)"},
      {schema, R"({"allOf": [{"multipleOf": 0.101}, {"multipleOf": 103}]})",
       "the least common multiple of all digits of multipleOf is 10403"},
      {regex, "a(b", "regex: unclosed group (line 1, column 2)"},
      {regex, "*", "regex: repetition operator missing expression (line 1, column 1)"},
      {regex, "abc\\", "regex: incomplete escape sequence"},
      {regex, "a(?=b)", "look-ahead"},
      {regex, "(?s:.)\\b.", "lookarounds not supported"},
      {regex, "[^\\s\\S]", "no text fits"},
      {regex, "\xFF", "not UTF-8"},
      {regex, Repeated("(", 10000) + Repeated(")", 10000), "nested parentheses/brackets (200)"},
      {lark, "foo: \"a\"", "grammar: no start rule found"},
      {lark, "start: foo", "grammar: at 1(8): unknown name: \"foo\""},
      {lark, "start: \"a\"\nb: (\"c\"", "grammar: 2("},
      {lark, "start: \"a", "grammar: 1("},
      {lark, "start: start", "no text fits"},
      {lark, "start: <|im_end|>", "unknown special token: \"<|im_end|>\""},
      {lark, "start: T\nT: /a+/ & /b+/", "the operator & is not supported (line 2)"},
      {lark, "start: \"x\" %json {\"minItems\": 99999}", "%json: minItems is 99999"},
      {lark, "start: " + Repeated("(", 9000), "groups are nested deeper than 200 (line 1)"},
      {lark,
       "start: T30\nT0: \"a\"\n" +
           [] {
             std::string doubling;
             for (int i = 1; i <= 30; ++i) {
               absl::StrAppend(&doubling, "T", i, ": T", i - 1, " T", i - 1, "\n");
             }
             return doubling;
           }(),
       "too big"},
      {regex, std::string(kMaxGrammarBytes + 1, 'a'),
       "regex is 65537 bytes long, the most is 65536"},
  };
}

TEST(GrammarRefusalTest, RefusalsNameTheirPlace) {
  const auto tokenizer = TinyTokenizer();
  for (const auto& [kind, text, problem] : Refusals()) {
    const auto begin = std::chrono::steady_clock::now();
    const auto grammar = tokenizer->CompileGrammar(kind, text);
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 80);
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(problem)) << text.substr(0, 80);
    EXPECT_FALSE(FirstInvalidUtf8(grammar.status().message()).has_value());
    EXPECT_LT(took, std::chrono::seconds(10)) << text.substr(0, 80);
  }
  // Nothing of this has used the compiler up.
  EXPECT_TRUE(tokenizer->CompileGrammar(GrammarKind::kRegex, "a").ok());
}

// Each of these either is refused or has answers whose every step ends in time.
TEST(GrammarRefusalTest, HostileTextsCostLittle) {
  const char* nested =
      "start: (a b c d e)*\na: /[a-z]/ b | \"\" | start\nb: /[a-z]/ c | \"\" | start\n"
      "c: /[a-z]/ d | \"\" | start\nd: /[a-z]/ e | \"\" | start\ne: /[a-z]/ a | \"\" | start\n";
  const std::pair<GrammarKind, std::string> cases[] = {
      {GrammarKind::kRegex, "((a*)*)*b"},
      {GrammarKind::kRegex, "(((a{1,100}){1,100}){1,100}){1,100}"},
      {GrammarKind::kRegex, "(a|b)*a(a|b){200}"},
      {GrammarKind::kRegex, "(\\p{L}|\\p{N}){1,1000}\\w{500}"},
      {GrammarKind::kRegex, ".{0,500}(a|b){0,500}.{0,500}(b|c){0,500}"},
      {GrammarKind::kJsonSchema, R"({"type": "string", "minLength": 1000000000})"},
      {GrammarKind::kJsonSchema, R"({"type": "string", "pattern": "(a{1,1000}){1,1000}"})"},
      {GrammarKind::kJsonSchema, R"({"type": "object", "minProperties": 1000000000})"},
      {GrammarKind::kLark, "start: start start | \"a\" |"},
      {GrammarKind::kLark, "start: a{100000,100000}\na: b{0,100000}\nb: \"x\"?"},
      {GrammarKind::kLark, nested},
  };
  const auto tokenizer = TinyTokenizer();
  for (const auto& [kind, text] : cases) {
    const auto begin = std::chrono::steady_clock::now();
    const auto grammar = tokenizer->CompileGrammar(kind, text);
    if (!grammar.ok()) continue;
    const auto state = (*grammar)->Start().value();
    std::mt19937_64 random(7);
    std::vector<uint32_t> mask(GrammarMaskWords(kPadded));
    absl::Status status;
    for (int i = 0; i < 50 && status.ok() && !state->stopped(); ++i) {
      status = state->Mask(absl::MakeSpan(mask));
      const std::vector<uint32_t> allowed = Allowed(mask);
      if (status.ok()) status = state->Accept(TokenId(allowed[random() % allowed.size()]));
    }
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kResourceExhausted) << status;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << text;
  }
}

}  // namespace
}  // namespace folio::model::testing
