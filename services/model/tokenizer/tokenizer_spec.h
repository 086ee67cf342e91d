// TokenizerSpec is a tokenizer as a model's files describe it. Loaders of files fill it in and
// Tokenizer::Create takes it, so that neither has to know the other.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_TOKENIZER_SPEC_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_TOKENIZER_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

namespace folio::model {

struct TokenizerSpec {
  std::string tokenizer_json;        // in the format of the `tokenizers` crate
  std::string chat_template;         // in Jinja; empty if there is none
  std::string bos_token, eos_token;  // text, for the template; may be empty
  std::vector<uint32_t> eos_ids;     // any of these ends generation
  bool add_bos = false;
  uint32_t bos_id = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_TOKENIZER_SPEC_H_
