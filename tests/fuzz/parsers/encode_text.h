// EncodeText makes a tokenizer and gives it a text, as a worker does.
#ifndef FOLIO_TESTS_FUZZ_PARSERS_ENCODE_TEXT_H_
#define FOLIO_TESTS_FUZZ_PARSERS_ENCODE_TEXT_H_

#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "services/model/tokenizer/tokenizer.h"

namespace folio::fuzz {

// Ends the program if a token of the text is outside of the vocabulary. Special tokens that are
// written in a chat must stay text.
inline void EncodeText(const model::TokenizerSpec& spec, uint32_t vocabulary,
                       absl::string_view text) {
  const auto tokenizer = model::Tokenizer::Create(spec, vocabulary);
  if (!tokenizer.ok()) return;
  std::string back;
  if (const auto tokens = (*tokenizer)->Encode(text); tokens.ok()) {
    for (const TokenId token : *tokens) {
      const auto bytes = (*tokenizer)->TokenBytes(token);
      if (!bytes.ok()) std::abort();
      back += *bytes;
    }
  }
  (void)(*tokenizer)->Encode(back);
  for (uint32_t id = 0; id <= vocabulary; ++id) {
    if ((*tokenizer)->TokenBytes(TokenId(id)).ok() != (id < vocabulary)) std::abort();
    (void)(*tokenizer)->IsSpecial(TokenId(id));
  }
}

}  // namespace folio::fuzz

#endif  // FOLIO_TESTS_FUZZ_PARSERS_ENCODE_TEXT_H_
