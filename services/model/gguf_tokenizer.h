// Turns the tokenizer that a GGUF file carries in its metadata into the specification that
// Tokenizer::Create takes: a tokenizer.json of the `tokenizers` crate, the chat template, the ids
// that end a generation. Byte-level BPE only (tokenizer.ggml.model "gpt2"), the one of the Llama
// family's models since Llama 3. Pure; any thread.
#ifndef FOLIO_SERVICES_MODEL_GGUF_TOKENIZER_H_
#define FOLIO_SERVICES_MODEL_GGUF_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/model_source.h"

namespace folio::model {

// The metadata's values as they stand; the key is "tokenizer.ggml." and the name in the comment,
// where the comment does not say otherwise. A key the file lacks is left empty.
struct GgufTokenizer {
  std::string model;                 // model
  std::string pre;                   // pre
  std::vector<std::string> tokens;   // tokens; the index is the id
  std::vector<std::string> merges;   // merges; "left right", most frequent first
  std::vector<int32_t> token_types;  // token_type; 1 normal, 3 control, 4 user-defined, ...
  std::optional<uint32_t> bos_id;    // bos_token_id
  std::optional<uint32_t> eos_id;    // eos_token_id
  std::optional<uint32_t> eot_id;    // eot_token_id
  std::optional<bool> add_bos;       // add_bos_token
  std::string chat_template;         // tokenizer.chat_template
};

// Without `add_bos` the pre-tokenizer's custom decides (yes for "llama-bpe"). INVALID_ARGUMENT
// names the field that is damaged; UNIMPLEMENTED names the model or pre-tokenizer not known, and
// those that are.
absl::StatusOr<TokenizerSpec> TokenizerFromGguf(const GgufTokenizer& gguf);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_GGUF_TOKENIZER_H_
