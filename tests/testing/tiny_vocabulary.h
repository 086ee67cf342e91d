// TinyTokens is a byte-level BPE vocabulary of 300 tokens. They are three control tokens (ids 0
// to 2, "<|endoftext|>", "<|im_start|>" and "<|im_end|>"), the 256 bytes and 41 frequent English
// pairs. It can encode every text.
#ifndef FOLIO_TESTS_TESTING_TINY_VOCABULARY_H_
#define FOLIO_TESTS_TESTING_TINY_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace folio::testing {

inline constexpr uint32_t kTinyVocab = 300;
inline constexpr uint32_t kTinyEndOfText = 0;
inline constexpr uint32_t kTinyImStart = 1;
inline constexpr uint32_t kTinyImEnd = 2;

// By id, in the alphabet of byte-level BPE.
std::vector<std::string> TinyTokens();
std::vector<std::string> TinyMerges();  // "left right"
std::vector<int32_t> TinyTokenTypes();  // GGUF's
const char* TinyChatTemplate();         // Jinja, the <|im_start|> format
nlohmann::json TinyTokenizerJson();     // of the `tokenizers` crate

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_TINY_VOCABULARY_H_
