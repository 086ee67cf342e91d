#include "services/worker/engine/scheduler.h"

#include <algorithm>

namespace folio::worker {
namespace {

SamplingRecord SamplingOf(const SamplingParameters& parameters) {
  return {.temperature = parameters.temperature,
          .top_k = parameters.top_k,
          .top_p = parameters.top_p.value_or(1.0f),
          .min_p = parameters.min_p,
          .seed = parameters.seed.value_or(0)};
}

void WantOutput(const Sequence& sequence, model::StepSegment* segment) {
  segment->want_output = true;
  segment->sampling = SamplingOf(sequence.request().sampling);
  segment->top_logprobs = sequence.request().top_logprobs;
  segment->target = sequence.request().ForcedToken(sequence.state().progress().outputs_enqueued);
}

// The tokens of the next chunk, when `budget` are left of the step's budget and `room` of its rows.
uint32_t NextChunk(const Sequence& sequence, uint32_t budget, uint32_t room) {
  const SequenceState& state = sequence.state();
  const uint32_t remaining = sequence.request().prompt_tokens() - state.progress().fed;
  if (remaining <= budget) return remaining;
  const uint32_t before_window = remaining - state.held()->scores.window.queries;
  if (before_window > 0) return std::min(budget, before_window);
  return remaining <= room ? remaining : 0;
}

model::StepSegment PromptSegment(const Sequence& sequence, uint32_t tokens) {
  const std::vector<TokenId>& prompt = sequence.request().prompt;
  const uint32_t fed = sequence.state().progress().fed;
  const HeldSlot& held = *sequence.state().held();
  model::StepSegment segment;
  segment.slot = held.slot;
  segment.prompt = true;
  segment.first_position = Position(fed);
  segment.tokens.assign(prompt.begin() + fed, prompt.begin() + fed + tokens);
  if (fed + tokens < prompt.size()) return segment;
  WantOutput(sequence, &segment);
  segment.window = held.scores.window;
  segment.score_resident = WrittenOnDemand(held.scores.kind);
  return segment;
}

// With the next token, a page of some layer is full.
bool FillsPage(const model::BlockTables& table) {
  const CacheGeometry& geometry = table.geometry();
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    if ((table.resident(LayerIndex(layer)) + 1) % geometry.page_tokens == 0) return true;
  }
  return false;
}

}  // namespace

Scheduler::Scheduler(const TokenBudget& budget, uint32_t max_rows,
                     const model::SequenceTables* tables)
    : budget_(budget), max_rows_(max_rows), tables_(tables) {}

bool Scheduler::CanDecode(const Sequence& sequence) const {
  const SequenceState& state = sequence.state();
  return state.phase() == Phase::kDecode &&
         state.progress().outputs_enqueued < sequence.request().max_new_tokens &&
         tables_->at(state.held()->slot).free_tokens() > 0;
}

model::StepSegment Scheduler::DecodeSegment(const Sequence& sequence) const {
  const StepProgress& progress = sequence.state().progress();
  const HeldSlot& held = *sequence.state().held();
  model::StepSegment segment;
  segment.slot = held.slot;
  segment.first_position = Position(progress.fed);
  if (sequence.request().scoring()) {
    segment.tokens = {sequence.request().targets[progress.outputs_enqueued - 1]};
  } else if (progress.outputs_collected == progress.outputs_enqueued) {
    segment.tokens = {progress.last_token};
  }  // else the step that samples it is in flight, and the device takes the token from there
  segment.score_resident = WrittenOnDemand(held.scores.kind) && FillsPage(tables_->at(held.slot));
  WantOutput(sequence, &segment);
  return segment;
}

Batch Scheduler::ChooseBatch(const SequenceList& sequences) const {
  Batch batch;
  for (const auto& sequence : sequences) {
    if (!CanDecode(*sequence)) continue;
    batch.step.segments.push_back(DecodeSegment(*sequence));
    batch.sequences.push_back(sequence.get());
  }
  const auto decodes = static_cast<uint32_t>(batch.sequences.size());
  uint32_t room = max_rows_ - decodes;
  uint32_t budget = std::min(budget_.alone, room);
  if (decodes > 0) budget = std::min(budget, budget_.beside_decodes);
  for (const auto& sequence : sequences) {
    if (budget == 0) break;
    if (sequence->state().phase() != Phase::kPrefill) continue;
    const uint32_t tokens = NextChunk(*sequence, budget, room);
    if (tokens == 0) continue;
    batch.step.segments.push_back(PromptSegment(*sequence, tokens));
    batch.sequences.push_back(sequence.get());
    budget -= std::min(budget, tokens);
    room -= tokens;
  }
  return batch;
}

}  // namespace folio::worker
