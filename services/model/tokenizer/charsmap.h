// IsCharsmap tells whether bytes are a table of SentencePiece's normalisation. It is pure.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_CHARSMAP_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_CHARSMAP_H_

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace folio::model {

// A table begins with the size of its first part, for which the `tokenizers` crate makes room
// before it looks whether the bytes are there. That part is a trie and never empty.
inline bool IsCharsmap(absl::string_view bytes) {
  uint32_t trie = 0;
  if (bytes.size() < sizeof trie) return false;
  std::memcpy(&trie, bytes.data(), sizeof trie);
  return trie >= sizeof trie && trie % sizeof trie == 0 && trie <= bytes.size() - sizeof trie;
}

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_CHARSMAP_H_
