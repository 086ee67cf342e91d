// Grammar is the form that an answer has to take, compiled for one tokenizer, and GrammarState is
// the place of one answer in it. For each token of the answer the caller takes a mask, samples
// among the tokens that it allows, and accepts the one that was sampled:
//
//   auto grammar = tokenizer.CompileGrammar(GrammarKind::kJsonSchema, R"({"type": "integer"})");
//   auto state = (*grammar)->Start();
//   std::vector<uint32_t> mask(GrammarMaskWords(vocab));
//   while (!(*state)->stopped()) {
//     if (auto status = (*state)->Mask(absl::MakeSpan(mask)); !status.ok()) ...
//     const TokenId token = SampleAmong(mask);
//     if (auto status = (*state)->Accept(token); !status.ok()) ...
//   }
//
// The crate `llguidance` does the work (services/model/tokenizer/ffi): an Earley parser over a
// lexer of derivatives, walked along the tree of all tokens' bytes.
//
// Any sequence of tokens whose bytes fit is allowed, not only the one that the tokenizer would
// choose for the text. Special tokens are allowed where a Lark grammar names them (`<|tool|>`), and
// never as text. The tokens that end an answer are allowed exactly where it may end, and cannot be
// named. Ids without a token, such as those that pad the model's vocabulary, are never allowed.
//
// A JSON answer has one blank after each comma and colon and no other white space outside of
// strings, because small models fill the freedom with blanks until their answer is cut off. A
// schema can ask for another spelling with llguidance's `"x-guidance": {"whitespace_flexible":
// true}`. Properties come in the order of the schema. A keyword that is not supported is an error.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_GRAMMAR_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/base/ids.h"

namespace folio::model {

enum class GrammarKind : uint8_t {
  kJsonSchema,  // a JSON Schema; {} is any JSON value
  kRegex,       // the whole answer matches it; as in Rust's regex crate, \d is any script's digit
  kLark,        // a context-free grammar in the Lark syntax of llguidance, which begins at `start`
};

// A longer text is refused.
inline constexpr size_t kMaxGrammarBytes = size_t{64} << 10;

// The 32-bit words of a mask: one bit for each token of the model.
constexpr size_t GrammarMaskWords(uint32_t vocab) { return (size_t{vocab} + 31) / 32; }

// Not thread-safe. It needs neither its grammar nor the tokenizer to live on.
class GrammarState {
 public:
  virtual ~GrammarState() = default;

  // Writes which tokens may come next: bit t % 32 of word t / 32 is 1 for token t. `mask` has
  // GrammarMaskWords(vocab) words. If nothing may follow, only tokens that end an answer are
  // allowed. RESOURCE_EXHAUSTED when the next token would take too much work, or when the state has
  // grown too large. FAILED_PRECONDITION when no token of the vocabulary fits, which is possible
  // only if some byte has no token, or after an error. The state is of no use after an error.
  virtual absl::Status Mask(absl::Span<uint32_t> mask) = 0;

  // Goes past `token`. INVALID_ARGUMENT when the mask does not allow it, and then nothing has
  // changed. RESOURCE_EXHAUSTED and FAILED_PRECONDITION as for Mask. Masks are not needed between
  // two calls.
  virtual absl::Status Accept(TokenId token) = 0;

  // Whether nothing more may follow, because the form is complete and cannot be continued, or
  // because a token that ends an answer was accepted.
  virtual bool stopped() const = 0;
};

// Immutable and thread-safe. It needs no tokenizer to live on.
class Grammar {
 public:
  virtual ~Grammar() = default;

  // The beginning of an answer. RESOURCE_EXHAUSTED when the library fails.
  virtual absl::StatusOr<std::unique_ptr<GrammarState>> Start() const = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_GRAMMAR_H_
