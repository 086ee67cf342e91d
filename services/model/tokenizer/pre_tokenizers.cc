#include "services/model/tokenizer/pre_tokenizers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace folio::model {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kContraction = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr absl::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr absl::string_view kOneDigit = R"(\p{N})";
constexpr absl::string_view kBlanks = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

// Each match of the pattern is a word, and so is what lies between two of them.
Json Split(std::string pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", std::move(pattern)}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json Sequence(std::vector<Json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", Json(std::move(steps))}};
}

Json Gpt2() { return ByteLevel(true); }

Json DigitsThenGpt2() {
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return Sequence({digits, ByteLevel(true)});
}

// Punctuation, then GPT-2's words, then numbers, whose digits go by three. llama.cpp does so for a
// vocabulary that it knows nothing of.
Json Default() {
  return Sequence({Split(R"([\p{P}\$\+<=>\^~\|]+)"),
                   Split(absl::StrCat("'s|'t|'re|'ve|'m|'ll|'d", R"(| ?\p{L}+| ?\p{N}+)",
                                      R"(| ?[^\s\p{L}\p{N}]+|\s+(?!\S))")),
                   Split(R"(\p{N}+)"), Split("[0-9][0-9][0-9]"), ByteLevel(false)});
}

// Contractions, words, numbers of at most `digits` digits, punctuation, line ends, blanks.
Json WholeWords(absl::string_view digits) {
  return Sequence({Split(absl::StrCat(kContraction, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)", digits,
                                      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|)", kBlanks)),
                   ByteLevel(false)});
}

Json Llama3() { return WholeWords(kThreeDigits); }
Json Qwen2() { return WholeWords(kOneDigit); }

// As WholeWords, but a word also ends where a small letter is followed by a capital one, and
// `tail` may be at its end.
Json CasedWords(absl::string_view tail, absl::string_view digits) {
  constexpr absl::string_view kHead = R"([^\r\n\p{L}\p{N}]?)";
  constexpr absl::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  constexpr absl::string_view kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  const std::string words = absl::StrCat(kHead, kUpper, "*", kLower, "+", tail, "|", kHead, kUpper,
                                         "+", kLower, "*", tail, "|");
  return Sequence({Split(absl::StrCat(words, digits, R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|)", kBlanks)),
                   ByteLevel(false)});
}

Json Tekken() { return CasedWords("", kOneDigit); }
Json Gpt4o() { return CasedWords(absl::StrCat(kContraction, "?"), kThreeDigits); }

constexpr PreTokenizer kPreTokenizers[] = {
    // name, cut, ignore_merges, add_bos, compose
    {"default", Default, false, false, false},
    {"gpt-2", Gpt2, false, false, false},
    {"phi-2", Gpt2, false, false, false},
    {"smollm", DigitsThenGpt2, false, false, false},
    {"refact", DigitsThenGpt2, false, false, false},  // Granite
    {"starcoder", DigitsThenGpt2, false, false, false},
    {"llama-bpe", Llama3, true, true, false},
    {"llama3", Llama3, true, true, false},
    {"llama-v3", Llama3, true, true, false},
    {"falcon3", Llama3, true, true, false},
    {"pixtral", Llama3, true, true, false},
    {"dbrx", Llama3, false, false, false},  // Phi-4
    {"smaug-bpe", Llama3, false, false, false},
    {"qwen2", Qwen2, false, false, true},  // Qwen 2, 2.5 and 3
    {"deepseek-r1-qwen", Qwen2, false, false, false},
    {"tekken", Tekken, true, true, false},   // Mistral NeMo, Ministral
    {"gpt-4o", Gpt4o, false, false, false},  // Phi-4-mini
};

}  // namespace

Json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

absl::StatusOr<PreTokenizer> FindPreTokenizer(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const PreTokenizer& pre : kPreTokenizers) {
    if (pre.name == name) return pre;
    known.push_back(pre.name);
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.pre: pre-tokenizer '", name,
                                               "' is not supported; known are ",
                                               absl::StrJoin(known, ", ")));
}

}  // namespace folio::model
