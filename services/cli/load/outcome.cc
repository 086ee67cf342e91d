#include "services/cli/load/outcome.h"

namespace folio::load {

void Call::OnEvent(const folio::v1::GenerateResponse& event, SteadyTime arrival) {
  outcome.ended = arrival;
  if (event.prefill().queue_position() > 0) outcome.waited = true;
  const auto tokens = static_cast<uint32_t>(event.chunk().tokens_size());
  if (tokens == 0) return;
  full_->Count(tokens);
  outcome.output_tokens += tokens;
  if (!outcome.first.has_value()) {
    outcome.first = absl::ToDoubleSeconds(arrival - outcome.asked);
    first_ = arrival;
    full_->Begin(arrival);
  } else {
    outcome.gaps.push_back(static_cast<float>(absl::ToDoubleSeconds(arrival - last_)));
  }
  last_ = arrival;
}

void Call::OnEnd(const absl::Status& status) {
  // The time of an answer ends with its last message, and that of a refusal with the refusal.
  if (!status.ok()) outcome.ended = SteadyNow();
  if (outcome.first.has_value()) full_->End(outcome.ended);
  if (outcome.output_tokens > 1) {
    outcome.per_token = absl::ToDoubleSeconds(last_ - first_) / (outcome.output_tokens - 1);
  }
  outcome.status = status;
  // The callback must outlive this, which it may destroy.
  const std::function<void(Call*)> done = std::move(done_);
  done(this);
}

}  // namespace folio::load
