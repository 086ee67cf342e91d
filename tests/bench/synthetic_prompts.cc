#include "tests/bench/synthetic_prompts.h"

#include "services/common/check.h"

namespace folio::bench {

using model::SlotId;

SlotId SyntheticPrompts::Acquire(kernels::ScoreKind score) {
  const SlotId slot = inner_->Acquire(score);
  prompts_[slot].pages.resize(layers_);
  return slot;
}

const SyntheticPrompts::Prompt* SyntheticPrompts::InPrompt(SlotId slot) const {
  const auto found = prompts_.find(slot);
  return found == prompts_.end() ? nullptr : &found->second;
}

void SyntheticPrompts::ExtendTables(SlotId slot, const std::vector<std::vector<PageRef>>& pages) {
  const auto found = prompts_.find(slot);
  if (found == prompts_.end()) return inner_->ExtendTables(slot, pages);
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    std::vector<PageRef>& held = found->second.pages[layer];
    held.insert(held.end(), pages[layer].begin(), pages[layer].end());
  }
}

void SyntheticPrompts::Restore(SlotId slot, const std::vector<std::vector<PageRef>>& pages,
                               const std::vector<std::vector<model::PositionRun>>& positions) {
  prompts_.erase(slot);
  inner_->Restore(slot, pages, positions);
}

void SyntheticPrompts::Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
                               const std::vector<uint32_t>& spare) {
  inner_->Compact(slot, keep, spare);
}

void SyntheticPrompts::DropBlocks(SlotId slot,
                                  const std::vector<std::optional<BlockIndex>>& block) {
  inner_->DropBlocks(slot, block);
}

void SyntheticPrompts::Release(SlotId slot) {
  prompts_.erase(slot);
  first_.erase(slot);
  inner_->Release(slot);
}

PageRef SyntheticPrompts::NewestPage(SlotId slot, LayerIndex layer) const {
  FOLIO_CHECK(InPrompt(slot) == nullptr);
  return inner_->NewestPage(slot, layer);
}

uint32_t SyntheticPrompts::resident(SlotId slot, LayerIndex layer) const {
  const Prompt* prompt = InPrompt(slot);
  return prompt != nullptr ? prompt->tokens : inner_->resident(slot, layer);
}

uint32_t SyntheticPrompts::pages(SlotId slot, LayerIndex layer) const {
  const Prompt* prompt = InPrompt(slot);
  return prompt != nullptr ? static_cast<uint32_t>(prompt->pages[layer.value()].size())
                           : inner_->pages(slot, layer);
}

uint32_t SyntheticPrompts::free_tokens(SlotId slot) const {
  const Prompt* prompt = InPrompt(slot);
  if (prompt == nullptr) return inner_->free_tokens(slot);
  return static_cast<uint32_t>(prompt->pages[0].size()) * page_tokens_ - prompt->tokens;
}

void SyntheticPrompts::Finish(SlotId slot) {
  const auto prompt = prompts_.extract(slot);
  const model::PositionRun all{Position(0), Position(prompt.mapped().tokens)};
  inner_->Restore(slot, prompt.mapped().pages, {layers_, {all}});
}

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
    prompts_.at(segment.slot).tokens += static_cast<uint32_t>(segment.tokens.size());
    if (!segment.want_output) continue;
    Finish(segment.slot);
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
