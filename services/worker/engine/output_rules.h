// OutputRules says, for each token of one answer, how its logits are changed before it is sampled:
// penalties and biases of the request, the tokens that min_tokens keeps back, and the form that the
// answer has to take. It knows the tokens that have come, so that any worker that has the record of
// a sequence makes the same rules of it.
//
// Rules are used by the step loop's thread alone.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_OUTPUT_RULES_H_
#define FOLIO_SERVICES_WORKER_ENGINE_OUTPUT_RULES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/model/executor/logit_edits.h"
#include "services/model/tokenizer/grammar.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/sequence_request.h"

namespace folio::worker {

// The form, compiled. INVALID_ARGUMENT begins with the field of the protocol. Any thread.
absl::StatusOr<std::shared_ptr<const model::Grammar>> CompileFormat(
    const wire::OutputFormat& format, const model::Tokenizer& tokenizer);

// A form may take so much time of the processor for each token of an answer on average, and so much
// before that counts. Ordinary ones take a tenth of a millisecond.
inline constexpr absl::Duration kFormTimePerToken = absl::Milliseconds(5);
inline constexpr absl::Duration kFormTimeAhead = absl::Milliseconds(200);

class OutputRules {
 public:
  // The rules before the first token. The request is complete, and borrowed for the life of this
  // object. The format of a sequence that was claimed is compiled here.
  // Errors are those of CompileFormat and of model::GrammarState.
  static absl::StatusOr<OutputRules> Begin(const SequenceRequest* request,
                                           const model::Tokenizer* tokenizer);

  // Takes the next tokens of the answer: one that was sampled, or all of an answer that a worker
  // takes over. INTERNAL if the format does not allow one, as it allows each token that was sampled
  // by these rules. RESOURCE_EXHAUSTED if the format takes too much of the step loop's time, for
  // which all other sequences wait. Other errors are those of model::GrammarState.
  absl::Status Take(absl::Span<const TokenId> tokens);
  uint32_t taken() const { return taken_; }

  // The edits for output number `output`, for which all tokens before it or all but one were taken.
  // Its spans are valid until the next Take.
  model::LogitEdits Edits(uint32_t output) const;
  // Output number `output` has rules that depend on a token that was not taken yet.
  bool MustWait(uint32_t output) const { return state_ != nullptr && output > taken_; }

 private:
  OutputRules(const SequenceRequest* request, const model::Tokenizer* tokenizer);
  // The edit of a token, which is made if there is none yet.
  model::LogitEdit& EditOf(TokenId token);
  // Makes `early_` of `edits_`.
  void KeepEndBack();
  // Brings the form past these tokens, the newest ones, and updates `allowed_`. Only what may
  // follow the last of them is asked for, because that takes most of the time.
  absl::Status AdvanceForm(absl::Span<const TokenId> tokens);
  absl::Status UpdateAllowed(absl::Span<const TokenId> tokens);

  const SequenceRequest* request_;
  const LogitChanges* changes_;
  std::vector<TokenId> ends_;  // tokens that end the answer
  uint32_t taken_ = 0;
  absl::flat_hash_map<uint32_t, size_t> places_;  // of tokens in `edits_`
  std::vector<model::LogitEdit> edits_;
  std::vector<model::LogitEdit> early_;         // the same before min_tokens have come
  std::unique_ptr<model::GrammarState> state_;  // null: free text
  std::vector<uint32_t> allowed_;
  absl::Duration form_time_;  // of the processor, for all tokens so far
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_OUTPUT_RULES_H_
