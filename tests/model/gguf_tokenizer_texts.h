// TextsOf cuts a text by the tokenizer of a GGUF file's vocabulary.
#ifndef FOLIO_TESTS_MODEL_GGUF_TOKENIZER_TEXTS_H_
#define FOLIO_TESTS_MODEL_GGUF_TOKENIZER_TEXTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "services/model/tokenizer/gguf_tokenizer.h"
#include "services/model/tokenizer/tokenizer.h"

namespace folio::model {

// The vocabulary must be good.
inline std::unique_ptr<Tokenizer> MakeTokenizer(const TokenizerSpec& spec, size_t vocab) {
  auto tokenizer = Tokenizer::Create(spec, static_cast<uint32_t>(vocab));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

inline std::unique_ptr<Tokenizer> MakeTokenizer(const GgufTokenizer& gguf) {
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromGguf(gguf);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return MakeTokenizer(*spec, gguf.tokens.size());
}

// The text of each token of `text`.
inline std::vector<std::string> TextsOf(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> texts;
  const std::vector<TokenId> ids = tokenizer.Encode(text).value();
  texts.reserve(ids.size());
  for (const TokenId id : ids) texts.push_back(tokenizer.TokenBytes(id).value());
  return texts;
}

}  // namespace folio::model

#endif  // FOLIO_TESTS_MODEL_GGUF_TOKENIZER_TEXTS_H_
