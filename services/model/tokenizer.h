// Text to token ids and back, and the chat template. The work is done by the `tokenizers` and
// `minijinja` crates behind a small C interface (services/model/tokenizer_ffi).
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/common/ids.h"
#include "services/model/model_source.h"

namespace folio::model {

struct Message {
  std::string role;
  std::string content;
};

// Immutable and thread-safe.
class Tokenizer {
 public:
  // INVALID_ARGUMENT says what is wrong with the specification; `vocab` is the model's.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec,
                                                           uint32_t vocab);
  virtual ~Tokenizer() = default;

  // Special tokens written in the text are recognised; nothing is put in front unless the model's
  // tokenizer says so (`add_bos`, and the text does not start with it). Text for which the
  // vocabulary has no token is left out. INVALID_ARGUMENT when `text` is no UTF-8.
  virtual absl::StatusOr<std::vector<TokenId>> Encode(absl::string_view text) const = 0;

  // The template with the generation prompt. FAILED_PRECONDITION without a template;
  // INVALID_ARGUMENT with the template's own error. Encoding what it gives adds no bos twice.
  virtual absl::StatusOr<std::string> RenderChat(absl::Span<const Message> messages) const = 0;

  // The raw bytes a token stands for; special tokens give their text. May be part of a character.
  // Nothing for an id that pads the model's vocabulary; INVALID_ARGUMENT for one outside it.
  virtual absl::StatusOr<std::string> TokenBytes(TokenId id) const = 0;

  virtual bool IsSpecial(TokenId id) const = 0;
  virtual bool IsEos(TokenId id) const = 0;
  virtual const std::vector<uint32_t>& eos_ids() const = 0;
  virtual bool has_chat_template() const = 0;
  virtual uint32_t vocab_size() const = 0;  // the model's
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_H_
