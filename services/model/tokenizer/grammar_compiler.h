// GrammarCompiler compiles the grammars of one tokenizer.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_GRAMMAR_COMPILER_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_GRAMMAR_COMPILER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "services/model/tokenizer/ffi/tokenizer_ffi.h"
#include "services/model/tokenizer/grammar.h"

namespace folio::model {

// Thread-safe.
class GrammarCompiler {
 public:
  // `vocab` is the model's. Both arguments that are borrowed outlive the compiler.
  GrammarCompiler(const folio_tok_vocabulary* vocabulary, absl::Span<const uint32_t> end_tokens,
                  uint32_t vocab);
  ~GrammarCompiler();

  // As Tokenizer::CompileGrammar.
  absl::StatusOr<std::shared_ptr<const Grammar>> Compile(GrammarKind kind, absl::string_view text);

 private:
  // Makes the environment once.
  absl::StatusOr<const folio_tok_environment*> Environment();

  const folio_tok_vocabulary* const vocabulary_;
  const absl::Span<const uint32_t> end_tokens_;
  const uint32_t vocab_;

  absl::Mutex mutex_;
  folio_tok_environment* environment_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_GRAMMAR_COMPILER_H_
