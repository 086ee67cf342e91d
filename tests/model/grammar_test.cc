// Answers that are drawn at random under a constraint have its form, masks are those of a search
// token by token, and what cannot be compiled is refused with its place, in bounded time.
#include "services/model/tokenizer/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "services/model/tokenizer/tokenizer.h"
#include "services/text/utf8.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using folio::testing::kTinyEndOfText;
using folio::testing::kTinyImEnd;
using folio::testing::kTinyImStart;
using folio::testing::kTinyVocab;
using ::testing::HasSubstr;

constexpr uint32_t kPadded = kTinyVocab + 20;  // the model has more columns than the tokenizer

std::unique_ptr<Tokenizer> TinyTokenizer(uint32_t vocab = kPadded) {
  TokenizerSpec spec;
  spec.tokenizer_json = folio::testing::TinyTokenizerJson().dump();
  spec.eos_ids = {kTinyEndOfText, kTinyImEnd};
  return Tokenizer::Create(spec, vocab).value();
}

std::shared_ptr<const Grammar> Compiled(const Tokenizer& tokenizer, GrammarKind kind,
                                        const std::string& text) {
  auto grammar = tokenizer.CompileGrammar(kind, text);
  EXPECT_TRUE(grammar.ok()) << text << ": " << grammar.status();
  return grammar.ok() ? *std::move(grammar) : nullptr;
}

std::vector<uint32_t> MaskOf(GrammarState& state, uint32_t vocab) {
  std::vector<uint32_t> words(GrammarMaskWords(vocab), 0xDEADBEEF);
  const absl::Status status = state.Mask(absl::MakeSpan(words));
  EXPECT_TRUE(status.ok()) << status;
  return words;
}

bool Allows(const std::vector<uint32_t>& mask, uint32_t token) {
  return (mask[token / 32] >> (token % 32) & 1) == 1;
}

std::vector<uint32_t> Allowed(const std::vector<uint32_t>& mask) {
  std::vector<uint32_t> tokens;
  for (uint32_t token = 0; token < mask.size() * 32; ++token) {
    if (Allows(mask, token)) tokens.push_back(token);
  }
  return tokens;
}

// Random choices that mostly prefer tokens which end, so that answers do not grow without end.
class Walk {
 public:
  Walk(const Tokenizer& tokenizer, const Grammar& grammar, uint64_t seed)
      : tokenizer_(tokenizer), state_(grammar.Start().value()), random_(seed) {}

  // The answer's text, or nothing if it did not end after `most` tokens.
  std::optional<std::string> Run(int most) {
    std::string text;
    for (int i = 0; i < most; ++i) {
      if (state_->stopped()) return text;
      const std::vector<uint32_t> allowed = Allowed(MaskOf(*state_, tokenizer_.vocab_size()));
      if (allowed.empty()) return std::nullopt;
      const TokenId token(Choose(allowed));
      const absl::Status accepted = state_->Accept(token);
      EXPECT_TRUE(accepted.ok()) << token.value() << " after " << text << ": " << accepted;
      if (!accepted.ok()) return std::nullopt;
      if (!tokenizer_.IsEos(token)) text += tokenizer_.TokenBytes(token).value();
    }
    return std::nullopt;
  }

 private:
  uint32_t Choose(const std::vector<uint32_t>& allowed) {
    for (const uint32_t token : allowed) {
      const std::string bytes = tokenizer_.TokenBytes(TokenId(token)).value();
      const bool closes =
          tokenizer_.IsEos(TokenId(token)) || bytes == "\"" || bytes == "}" || bytes == "]";
      if (closes && random_() % 4 == 0) return token;
    }
    return allowed[random_() % allowed.size()];
  }

  const Tokenizer& tokenizer_;
  std::unique_ptr<GrammarState> state_;
  std::mt19937_64 random_;
};

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

}  // namespace
}  // namespace folio::model
