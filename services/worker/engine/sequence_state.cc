#include "services/worker/engine/sequence_state.h"

#include <algorithm>
#include <utility>

#include "services/base/check.h"

namespace folio::worker {

bool NeedsCompaction(const ResolvedCache& cache, uint32_t prompt_tokens) {
  return std::any_of(cache.layer_budgets.begin(), cache.layer_budgets.end(),
                     [&](TokenCount budget) { return prompt_tokens > budget.value(); });
}

void SequenceState::OnGranted(SequenceGrant grant) {
  FOLIO_CHECK(!grant_.has_value() && (phase_ == Phase::kOpening || phase_ == Phase::kClosing));
  grant_ = std::move(grant);
}

void SequenceState::Begin(const HeldSlot& held, uint32_t prompt_tokens, uint32_t logical_length,
                          const std::vector<TokenId>& sampled) {
  FOLIO_CHECK(phase_ == Phase::kOpening && grant_.has_value());
  held_ = held;
  prompt_tokens_ = prompt_tokens;
  progress_.fed = progress_.committed = logical_length;
  progress_.outputs_enqueued = progress_.outputs_collected = static_cast<uint32_t>(sampled.size());
  if (!sampled.empty()) progress_.last_token = sampled.back();
  phase_ = logical_length < prompt_tokens ? Phase::kPrefill : Phase::kDecode;
}

void SequenceState::OnEnqueued(const model::StepSegment& segment, uint64_t step, bool fills_page) {
  FOLIO_CHECK(phase_ == (segment.prompt ? Phase::kPrefill : Phase::kDecode));
  progress_.fed += segment.prompt ? static_cast<uint32_t>(segment.tokens.size()) : 1;
  progress_.outputs_enqueued += segment.want_output ? 1 : 0;
  progress_.busy_until = step;
  const ResolvedCache& cache = grant_->cache;
  if (segment.prompt && segment.want_output) {
    phase_ = NeedsCompaction(cache, prompt_tokens_) ? Phase::kAwaitPlan : Phase::kDecode;
  } else if (fills_page && cache.synchronous && !cache.layer_budgets.empty()) {
    phase_ = Phase::kAwaitReply;
    reported_step_ = 0;
  }
}

void SequenceState::OnCollected(uint32_t logical_length, std::optional<TokenId> sampled) {
  progress_.committed = logical_length;
  if (!sampled.has_value()) return;
  ++progress_.outputs_collected;
  progress_.last_token = *sampled;
}

void SequenceState::OnCompacted(uint64_t busy_until) {
  FOLIO_CHECK(phase_ == Phase::kAwaitPlan);
  progress_.busy_until = std::max(progress_.busy_until, busy_until);
  phase_ = Phase::kDecode;
}

void SequenceState::OnReply(uint64_t reply_step) {
  if (phase_ != Phase::kAwaitReply || reported_step_ == 0 || reported_step_ > reply_step) return;
  phase_ = Phase::kDecode;
}

}  // namespace folio::worker
