#include "services/worker/engine/sequence_state.h"

#include <algorithm>
#include <utility>

#include "services/base/check.h"

namespace folio::worker {

bool NeedsCompaction(const ResolvedCache& cache, uint32_t tokens) {
  return std::any_of(cache.layer_budgets.begin(), cache.layer_budgets.end(),
                     [&](TokenCount budget) { return tokens > budget.value(); });
}

PromptStops StopsOf(const ResolvedCache& cache, const ScorePlan& scores, uint32_t prompt_tokens) {
  const bool streams = NeedsCompaction(cache, prompt_tokens);
  return {prompt_tokens, streams ? cache.compaction_stride.value() : 0, scores.window.queries};
}

void SequenceState::OnGranted(SequenceGrant grant) {
  FOLIO_CHECK(!grant_.has_value() && (phase_ == Phase::kOpening || phase_ == Phase::kClosing));
  grant_ = std::move(grant);
}

std::optional<TokenId> SequenceState::Known(uint32_t output) const {
  if (output >= sampled_.size()) return std::nullopt;
  return sampled_[output];
}

void SequenceState::Begin(const HeldSlot& held, uint32_t prompt_tokens, uint32_t logical_length,
                          uint64_t busy_until) {
  FOLIO_CHECK((phase_ == Phase::kOpening || phase_ == Phase::kParked) && grant_.has_value());
  held_ = held;
  scores_ = held.scores;
  prompt_tokens_ = prompt_tokens;
  held_->stops = StopsOf(grant_->cache, held.scores, prompt_tokens);
  busy_until = std::max(busy_until, progress_.busy_until);
  progress_ = {};
  progress_.busy_until = busy_until;
  progress_.fed = progress_.committed = logical_length;
  // The step that ended the prompt gave the first output, and each later one gave the next.
  const uint32_t outputs = logical_length < prompt_tokens ? 0 : logical_length - prompt_tokens + 1;
  FOLIO_CHECK(outputs <= sampled_.size());
  progress_.outputs_enqueued = progress_.outputs_collected = outputs;
  if (outputs > 0) progress_.last_token = sampled_[outputs - 1];
  phase_ = logical_length < prompt_tokens ? Phase::kPrefill : Phase::kDecode;
}

void SequenceState::OnEnqueued(const model::StepSegment& segment, uint64_t step, bool fills_page) {
  FOLIO_CHECK(phase_ == (segment.prompt ? Phase::kPrefill : Phase::kDecode));
  progress_.fed += segment.prompt ? static_cast<uint32_t>(segment.tokens.size()) : 1;
  progress_.outputs_enqueued += segment.want_output ? 1 : 0;
  progress_.busy_until = step;
  const ResolvedCache& cache = grant_->cache;
  if (segment.prompt) {
    const bool stops = held_->stops.IsStop(progress_.fed);
    if (segment.want_output) phase_ = Phase::kDecode;
    if (stops && NeedsCompaction(cache, progress_.fed)) phase_ = Phase::kAwaitPlan;
  } else if (fills_page && cache.synchronous && !cache.layer_budgets.empty()) {
    phase_ = Phase::kAwaitReply;
    reported_step_ = 0;
  }
}

bool SequenceState::OnCollected(uint32_t logical_length, std::optional<TokenId> sampled) {
  progress_.committed = logical_length;
  if (!sampled.has_value()) return false;
  ++progress_.outputs_collected;
  progress_.last_token = *sampled;
  if (progress_.outputs_collected <= sampled_.size()) return false;
  sampled_.push_back(*sampled);
  return true;
}

void SequenceState::Park(uint64_t busy_until) {
  if (!held_.has_value() || phase_ == Phase::kClosing) return;
  phase_ = Phase::kParking;
  progress_.busy_until = std::max(progress_.busy_until, busy_until);
}

void SequenceState::OnParked() {
  FOLIO_CHECK(phase_ == Phase::kParking);
  held_.reset();
  phase_ = Phase::kParked;
}

void SequenceState::OnCompacted(uint64_t busy_until) {
  FOLIO_CHECK(phase_ == Phase::kAwaitPlan);
  progress_.busy_until = std::max(progress_.busy_until, busy_until);
  phase_ = progress_.fed < prompt_tokens_ ? Phase::kPrefill : Phase::kDecode;
}

void SequenceState::OnReply(uint64_t reply_step) {
  if (phase_ != Phase::kAwaitReply || reported_step_ == 0 || reported_step_ > reply_step) return;
  phase_ = Phase::kDecode;
}

}  // namespace folio::worker
