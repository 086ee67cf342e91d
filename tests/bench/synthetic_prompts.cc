#include "tests/bench/synthetic_prompts.h"

namespace folio::bench {

model::StepTicket SyntheticPrompts::Enqueue(const model::StepBatch& batch) {
  model::StepBatch decodes;
  Outputs outputs;
  for (const model::StepSegment& segment : batch.segments) {
    if (!segment.prompt) {
      decodes.segments.push_back(segment);
      const auto first = first_.find(segment.slot);
      if (first != first_.end()) {
        if (segment.tokens.empty()) decodes.segments.back().tokens = {first->second};
        first_.erase(first);
      }
      if (segment.want_output) outputs.emplace_back();
      continue;
    }
    tables()
        .state(segment.slot)
        .table.Advance(segment.first_position, static_cast<uint32_t>(segment.tokens.size()));
    if (!segment.want_output) continue;
    const TokenId token = segment.tokens.front();
    first_[segment.slot] = token;
    model::SegmentOutput made_up;
    made_up.slot = segment.slot;
    made_up.token = token;
    outputs.emplace_back(std::move(made_up));
  }
  steps_.push_back(std::move(outputs));
  return inner_->Enqueue(decodes);
}

model::StepOutput SyntheticPrompts::Collect(model::StepTicket ticket) {
  model::StepOutput computed = inner_->Collect(ticket);
  const Outputs outputs = std::move(steps_.front());
  steps_.pop_front();
  if (!computed.status.ok()) return computed;
  model::StepOutput all;
  auto next = computed.outputs.begin();
  for (const std::optional<model::SegmentOutput>& output : outputs) {
    all.outputs.push_back(output.has_value() ? *output : *next++);
  }
  return all;
}

}  // namespace folio::bench
