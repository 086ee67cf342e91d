// Tokenizer turns text into token ids and back, renders chat templates, and compiles the forms that
// answers have to take. The `tokenizers`, `minijinja` and `llguidance` crates do the work behind a
// small C interface (services/model/tokenizer/ffi). The first two are used because token ids and
// prompts must be exactly those that Hugging Face's libraries give.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_TOKENIZER_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/model/tokenizer/chat.h"
#include "services/model/tokenizer/grammar.h"
#include "services/model/tokenizer/tokenizer_spec.h"

namespace folio::model {

// Immutable and thread-safe.
class Tokenizer {
 public:
  // INVALID_ARGUMENT says what is wrong with the specification; `vocab` is the model's.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec,
                                                           uint32_t vocab);
  virtual ~Tokenizer() = default;

  // Special tokens written in the text are recognised; nothing is put in front unless the model's
  // tokenizer says so (`add_bos`, and the text does not start with it). Text for which the
  // vocabulary has no token is left out. INVALID_ARGUMENT when `text` is not UTF-8.
  virtual absl::StatusOr<std::vector<TokenId>> Encode(absl::string_view text) const = 0;

  // Renders the template with the generation prompt. FAILED_PRECONDITION without a template,
  // INVALID_ARGUMENT with the template's own error, or with the part of the chat that chat.h does
  // not allow. Encoding the result does not add a second bos. A template that needs 64 MiB and 64
  // times the chat's size fails, and is not used any more after the third time, because each such
  // failure keeps its memory until the process ends.
  virtual absl::StatusOr<ChatText> RenderChat(absl::Span<const Message> messages,
                                              const ChatOptions& options) const = 0;

  // As Encode, but special tokens that are written in messages, tools and arguments are ordinary
  // text, so that the author of a message cannot end its turn and begin another one. Those of the
  // template count. A chat without such texts gives what Encode gives.
  virtual absl::StatusOr<std::vector<TokenId>> EncodeChat(const ChatText& chat) const = 0;

  // The raw bytes that a token stands for, which may be a part of a character. Special tokens give
  // their text, ids that pad the model's vocabulary give nothing. INVALID_ARGUMENT for an id
  // outside the vocabulary.
  virtual absl::StatusOr<std::string> TokenBytes(TokenId id) const = 0;

  // Whether bos is followed by the space that Encode puts in front of a text, as SentencePiece
  // does. It is then not of the text.
  virtual bool BeginsWithAddedSpace(absl::Span<const TokenId> tokens) const = 0;

  // The form that an answer has to take (grammar.h), whose end the eos tokens may then be.
  // INVALID_ARGUMENT says what is wrong with `text` and where, or which limit it passes. The first
  // call builds a tree of all tokens, which takes some tenths of a second for 49,152 of them, and
  // others wait for it. A hostile text may take seconds, so call it from no thread that serves all.
  virtual absl::StatusOr<std::shared_ptr<const Grammar>> CompileGrammar(
      GrammarKind kind, absl::string_view text) const = 0;

  virtual bool IsSpecial(TokenId id) const = 0;
  virtual bool IsEos(TokenId id) const = 0;
  virtual const std::vector<uint32_t>& eos_ids() const = 0;
  virtual bool has_chat_template() const = 0;
  virtual uint32_t vocab_size() const = 0;  // the model's
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_TOKENIZER_H_
