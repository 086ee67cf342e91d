// TokenizerFromGguf turns the tokenizer in a GGUF file's metadata into the specification that
// Tokenizer::Create takes, with a tokenizer.json of the `tokenizers` crate. It serves byte-level
// BPE (tokenizer.ggml.model "gpt2"), which Llama 3, SmolLM2 and Qwen2 have. It is pure and may be
// called from any thread.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_GGUF_TOKENIZER_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_GGUF_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/tokenizer/tokenizer_spec.h"

namespace folio::model {

// The metadata's values as they stand. Their keys are "tokenizer.ggml." and the name in the
// comment, except where the comment has a whole key. A key that the file lacks is left empty.
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

// Without `add_bos` the pre-tokenizer's default decides, which is true for "llama-bpe".
// INVALID_ARGUMENT names the field that is damaged. UNIMPLEMENTED names the model or pre-tokenizer
// that is unknown, and lists those that are known.
absl::StatusOr<TokenizerSpec> TokenizerFromGguf(const GgufTokenizer& gguf);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_GGUF_TOKENIZER_H_
