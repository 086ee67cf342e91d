// Walk is a random answer that a grammar allows. The functions beside it read masks, and make a
// tokenizer of 300 tokens whose model has 20 columns more.
#ifndef FOLIO_TESTS_MODEL_GRAMMAR_WALK_H_
#define FOLIO_TESTS_MODEL_GRAMMAR_WALK_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "services/model/tokenizer/grammar.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model::testing {

inline constexpr uint32_t kPadded =
    folio::testing::kTinyVocab + 20;  // the model has more columns than the tokenizer

inline std::unique_ptr<Tokenizer> TinyTokenizer() {
  TokenizerSpec spec;
  spec.tokenizer_json = folio::testing::TinyTokenizerJson().dump();
  spec.eos_ids = {folio::testing::kTinyEndOfText, folio::testing::kTinyImEnd};
  return Tokenizer::Create(spec, kPadded).value();
}

inline std::shared_ptr<const Grammar> Compiled(const Tokenizer& tokenizer, GrammarKind kind,
                                               const std::string& text) {
  auto grammar = tokenizer.CompileGrammar(kind, text);
  EXPECT_TRUE(grammar.ok()) << text << ": " << grammar.status();
  return grammar.ok() ? *std::move(grammar) : nullptr;
}

inline std::vector<uint32_t> MaskOf(GrammarState& state, uint32_t vocab) {
  std::vector<uint32_t> words(GrammarMaskWords(vocab), 0xDEADBEEF);
  const absl::Status status = state.Mask(absl::MakeSpan(words));
  EXPECT_TRUE(status.ok()) << status;
  return words;
}

inline bool Allows(const std::vector<uint32_t>& mask, uint32_t token) {
  return (mask[token / 32] >> (token % 32) & 1) == 1;
}

inline std::vector<uint32_t> Allowed(const std::vector<uint32_t>& mask) {
  std::vector<uint32_t> tokens;
  for (uint32_t token = 0; token < mask.size() * 32; ++token) {
    if (Allows(mask, token)) tokens.push_back(token);
  }
  return tokens;
}

// Random choices, of which some prefer tokens that close something, so that answers end.
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

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_GRAMMAR_WALK_H_
