#include "services/model/tokenizer/grammar.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/model/tokenizer/ffi_values.h"
#include "services/model/tokenizer/grammar_compiler.h"

namespace folio::model {
namespace {

struct FreeGrammar {
  void operator()(folio_tok_grammar* grammar) const { folio_tok_free_grammar(grammar); }
};
struct FreeState {
  void operator()(folio_tok_state* state) const { folio_tok_free_state(state); }
};

absl::string_view NameOf(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return "JSON Schema";
    case GrammarKind::kRegex:
      return "regex";
    case GrammarKind::kLark:
      return "grammar";
  }
  return "";
}

absl::Status Failure(int failure, folio_tok_bytes error) {
  const std::string message = Take(error);
  switch (failure) {
    case FOLIO_TOK_EXHAUSTED:
      return absl::ResourceExhaustedError(message);
    case FOLIO_TOK_NO_TOKEN:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

class CrateGrammarState final : public GrammarState {
 public:
  CrateGrammarState(folio_tok_state* state, uint32_t vocab) : state_(state), vocab_(vocab) {}

  absl::Status Mask(absl::Span<uint32_t> mask) override {
    FOLIO_CHECK(mask.size() == GrammarMaskWords(vocab_));
    folio_tok_bytes error{};
    const int failure = folio_tok_mask(state_.get(), mask.data(), mask.size(), &error);
    return failure == 0 ? absl::OkStatus() : Failure(failure, error);
  }

  absl::Status Accept(TokenId token) override {
    folio_tok_bytes error{};
    const int failure = folio_tok_accept(state_.get(), token.value(), &error);
    return failure == 0 ? absl::OkStatus() : Failure(failure, error);
  }

  bool stopped() const override { return folio_tok_stopped(state_.get()) != 0; }

 private:
  std::unique_ptr<folio_tok_state, FreeState> state_;
  uint32_t vocab_;
};

class CrateGrammar final : public Grammar {
 public:
  CrateGrammar(folio_tok_grammar* grammar, uint32_t vocab) : grammar_(grammar), vocab_(vocab) {}

  absl::StatusOr<std::unique_ptr<GrammarState>> Start() const override {
    folio_tok_state* state = nullptr;
    folio_tok_bytes error{};
    const int failure = folio_tok_start(grammar_.get(), &state, &error);
    if (failure != 0) return Failure(failure, error);
    return std::make_unique<CrateGrammarState>(state, vocab_);
  }

 private:
  std::unique_ptr<folio_tok_grammar, FreeGrammar> grammar_;
  uint32_t vocab_;
};

}  // namespace

GrammarCompiler::GrammarCompiler(const folio_tok_vocabulary* vocabulary,
                                 absl::Span<const uint32_t> end_tokens, uint32_t vocab)
    : vocabulary_(vocabulary), end_tokens_(end_tokens), vocab_(vocab) {}

GrammarCompiler::~GrammarCompiler() { folio_tok_free_grammars(environment_); }

absl::StatusOr<const folio_tok_environment*> GrammarCompiler::Environment() {
  absl::MutexLock lock(&mutex_);
  if (environment_ == nullptr) {
    folio_tok_bytes error{};
    const int failure = folio_tok_grammars(vocabulary_, end_tokens_.data(), end_tokens_.size(),
                                           &environment_, &error);
    if (failure != 0) return Failure(failure, error);
  }
  return environment_;
}

absl::StatusOr<std::shared_ptr<const Grammar>> GrammarCompiler::Compile(GrammarKind kind,
                                                                        absl::string_view text) {
  if (text.size() > kMaxGrammarBytes) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(kind), " is ", text.size(),
                                                   " bytes long, the most is ", kMaxGrammarBytes));
  }
  absl::StatusOr<const folio_tok_environment*> environment = Environment();
  if (!environment.ok()) return environment.status();
  folio_tok_grammar* grammar = nullptr;
  folio_tok_bytes error{};
  if (folio_tok_compile_grammar(*environment, static_cast<uint32_t>(kind), View(text), &grammar,
                                &error) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(kind), ": ", Take(error)));
  }
  return std::make_shared<const CrateGrammar>(grammar, vocab_);
}

}  // namespace folio::model
