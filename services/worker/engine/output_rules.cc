#include "services/worker/engine/output_rules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/base/check.h"
#include "services/base/thread_time.h"
#include "services/wire/sampling_check.h"

namespace folio::worker {
namespace {

constexpr absl::Duration kShown = absl::Milliseconds(1);
constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<TokenId> EndsOf(const SequenceRequest& request, const model::Tokenizer& tokenizer) {
  std::vector<TokenId> ends = request.output.stop_tokens;
  if (request.output.ignore_eos) return ends;
  for (const uint32_t id : tokenizer.eos_ids()) ends.emplace_back(id);
  return ends;
}

struct Form {
  model::GrammarKind kind;
  absl::string_view field;
};

Form FormOf(wire::OutputFormat::Kind kind) {
  switch (kind) {
    case wire::OutputFormat::Kind::kRegex:
      return {model::GrammarKind::kRegex, "format.regex"};
    case wire::OutputFormat::Kind::kGrammar:
      return {model::GrammarKind::kLark, "format.grammar"};
    case wire::OutputFormat::Kind::kFree:
    case wire::OutputFormat::Kind::kJsonSchema:
      break;
  }
  return {model::GrammarKind::kJsonSchema, "format.json_schema"};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const model::Grammar>> CompileFormat(
    const wire::OutputFormat& format, const model::Tokenizer& tokenizer) {
  const Form form = FormOf(format.kind);
  auto grammar = tokenizer.CompileGrammar(form.kind, format.text);
  if (grammar.ok()) return grammar;
  return absl::Status(grammar.status().code(),
                      absl::StrCat(form.field, ": ", grammar.status().message()));
}

OutputRules::OutputRules(const SequenceRequest* request, const model::Tokenizer* tokenizer)
    : request_(request), changes_(&request->sampling.changes) {
  if (changes_->repetition_penalty != 1) {
    for (const TokenId token : request->prompt) EditOf(token).in_text = true;
  }
  for (const LogitBias& one : changes_->biases) {
    EditOf(one.token).bias = one.bias <= -wire::kMaxBias ? kNever : one.bias;
  }
  if (request->output.min_tokens > 0) ends_ = EndsOf(*request, *tokenizer);
  KeepEndBack();
}

absl::StatusOr<OutputRules> OutputRules::Begin(const SequenceRequest* request,
                                               const model::Tokenizer* tokenizer) {
  OutputRules rules(request, tokenizer);
  std::shared_ptr<const model::Grammar> grammar = request->grammar;
  if (grammar == nullptr) {
    if (request->output.format.kind == wire::OutputFormat::Kind::kFree) return rules;
    auto compiled = CompileFormat(request->output.format, *tokenizer);
    if (!compiled.ok()) return compiled.status();
    grammar = *std::move(compiled);
  }
  auto state = grammar->Start();
  if (!state.ok()) return state.status();
  rules.state_ = *std::move(state);
  rules.allowed_.resize(model::GrammarMaskWords(tokenizer->vocab_size()));
  if (absl::Status status = rules.AdvanceForm({}); !status.ok()) return status;
  return rules;
}

absl::Status OutputRules::Take(absl::Span<const TokenId> tokens) {
  taken_ += static_cast<uint32_t>(tokens.size());
  if (changes_->penalizes()) {
    for (const TokenId token : tokens) {
      model::LogitEdit& edit = EditOf(token);
      ++edit.in_answer;
      edit.in_text = true;
    }
  }
  KeepEndBack();
  if (state_ == nullptr) return absl::OkStatus();
  return AdvanceForm(tokens);
}

absl::Status OutputRules::AdvanceForm(absl::Span<const TokenId> tokens) {
  const absl::Duration before = ThreadTime();
  if (absl::Status status = UpdateAllowed(tokens); !status.ok()) return status;
  form_time_ += ThreadTime() - before;
  if (form_time_ <= kFormTimeAhead + taken_ * kFormTimePerToken) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the format takes ", absl::FormatDuration(absl::Trunc(form_time_, kShown)),
                   " for ", taken_, " tokens, for which all other requests wait; the most is ",
                   absl::FormatDuration(kFormTimePerToken),
                   " a token, so give a format that is less ambiguous"));
}

absl::Status OutputRules::UpdateAllowed(absl::Span<const TokenId> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    absl::Status accepted = state_->Accept(tokens[i]);
    if (accepted.ok()) continue;
    if (!absl::IsInvalidArgument(accepted)) return accepted;
    return absl::InternalError(
        absl::StrCat("token ", taken_ - tokens.size() + i, " of the answer is ", tokens[i].value(),
                     ", which its format does not allow: ", accepted.message()));
  }
  return state_->Mask(absl::MakeSpan(allowed_));
}

model::LogitEdits OutputRules::Edits(uint32_t output) const {
  FOLIO_CHECK(output == taken_ || output == taken_ + 1);
  model::LogitEdits edits;
  edits.presence_penalty = changes_->presence_penalty;
  edits.frequency_penalty = changes_->frequency_penalty;
  edits.repetition_penalty = changes_->repetition_penalty;
  edits.tokens = output < request_->output.min_tokens ? early_ : edits_;
  edits.counts_last = changes_->penalizes() && output > taken_;
  edits.allowed = allowed_;
  return edits;
}

model::LogitEdit& OutputRules::EditOf(TokenId token) {
  const auto [place, is_new] = places_.try_emplace(token.value(), edits_.size());
  if (is_new) edits_.push_back({.token = token});
  return edits_[place->second];
}

void OutputRules::KeepEndBack() {
  if (taken_ >= request_->output.min_tokens) return;
  early_ = edits_;
  for (const TokenId end : ends_) {
    const auto place = places_.find(end.value());
    if (place != places_.end()) {
      early_[place->second].bias = kNever;
    } else if (std::none_of(early_.begin() + static_cast<ptrdiff_t>(edits_.size()), early_.end(),
                            [&](const model::LogitEdit& one) { return one.token == end; })) {
      early_.push_back({.token = end, .bias = kNever});
    }
  }
}

}  // namespace folio::worker
