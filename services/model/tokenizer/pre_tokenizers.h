// FindPreTokenizer looks up how byte-level BPE of a GGUF file cuts a text into words before it
// merges their bytes. It is pure, and internal to TokenizerFromGguf.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_PRE_TOKENIZERS_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_PRE_TOKENIZERS_H_

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio::model {

// A name of tokenizer.ggml.pre, and the defaults that go with it.
struct PreTokenizer {
  absl::string_view name;
  nlohmann::json (*cut)();  // the pre_tokenizer of tokenizer.json
  bool ignore_merges;       // a word that is a token is taken whole
  bool add_bos;             // when the file does not say
  bool compose;             // characters are composed first (NFC)
};

// UNIMPLEMENTED lists the names that are known.
absl::StatusOr<PreTokenizer> FindPreTokenizer(absl::string_view name);

// The step that writes each byte as a printable character, and with `use_regex` cuts as GPT-2 does.
nlohmann::json ByteLevel(bool use_regex);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_PRE_TOKENIZERS_H_
