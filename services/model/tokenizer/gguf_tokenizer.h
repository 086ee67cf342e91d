// TokenizerFromGguf turns the tokenizer in a GGUF file's metadata into the specification that
// Tokenizer::Create takes, with a tokenizer.json of the `tokenizers` crate. It serves byte-level
// BPE (tokenizer.ggml.model "gpt2"), and SentencePiece's BPE ("llama") and unigram ("t5"). It is
// pure and may be called from any thread.
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
  std::string model;                        // model
  std::string pre;                          // pre; of byte-level BPE alone
  std::vector<std::string> tokens;          // tokens; the index is the id
  std::vector<std::string> merges;          // merges; "left right", most frequent first
  std::vector<float> scores;                // scores; of SentencePiece's models alone
  std::vector<int32_t> token_types;         // token_type
  std::optional<uint32_t> bos_id;           // bos_token_id
  std::optional<uint32_t> eos_id;           // eos_token_id
  std::optional<uint32_t> eot_id;           // eot_token_id
  std::optional<uint32_t> unknown_id;       // unknown_token_id
  std::optional<bool> add_bos;              // add_bos_token
  std::optional<bool> add_eos;              // add_eos_token
  std::optional<bool> add_space_prefix;     // add_space_prefix
  std::optional<bool> remove_extra_spaces;  // remove_extra_whitespaces
  std::string charsmap;                     // precompiled_charsmap; bytes
  std::string chat_template;                // tokenizer.chat_template
};

// Without `add_bos` the pre-tokenizer's default decides, which is true for "llama-bpe" and its
// like, or the model's, which is true for "llama". Both models of SentencePiece put a space in
// front of a text unless `add_space_prefix` is false, and keep all spaces unless
// `remove_extra_spaces` is true. INVALID_ARGUMENT names the field that is damaged. UNIMPLEMENTED
// names the model or pre-tokenizer that is unknown, and lists those that are known, or says that
// `add_eos` is true, since an answer continues the prompt.
absl::StatusOr<TokenizerSpec> TokenizerFromGguf(const GgufTokenizer& gguf);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_GGUF_TOKENIZER_H_
