#include "services/worker/engine/scheduler.h"

#include <algorithm>

namespace folio::worker {
namespace {

// How a token is drawn. The changes of logits are left out: a segment has them as edits, and the
// biases may be many.
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
  const std::optional<uint32_t> logprobs = sequence.request().output.logprobs;
  segment->top_logprobs = logprobs ? static_cast<int>(*logprobs) : -1;
  const uint32_t output = sequence.state().progress().outputs_enqueued;
  segment->target = sequence.state().Known(output);
  if (!segment->target.has_value()) segment->target = sequence.request().ForcedToken(output);
  if (!segment->target.has_value()) segment->edits = sequence.answer().rules().Edits(output);
}

uint32_t PromptTokensLeft(const Sequence& sequence) {
  return sequence.request().prompt_tokens() - sequence.state().progress().fed;
}

// A compaction of the prompt, or its end.
uint32_t ToNextStop(const Sequence& sequence) {
  const uint32_t fed = sequence.state().progress().fed;
  return sequence.state().held()->stops.Next(fed) - fed;
}

// The tokens of the next chunk, when `budget` are left of the step's budget and `rows` of its rows,
// and the sequence's pages have room for `fits`.
uint32_t NextChunk(const Sequence& sequence, uint32_t budget, uint32_t rows, uint32_t fits) {
  const uint32_t to_stop = ToNextStop(sequence);
  budget = std::min(budget, fits);
  if (to_stop <= budget) return to_stop;
  const uint32_t remaining = PromptTokensLeft(sequence);
  if (to_stop < remaining) return budget;
  const uint32_t before_window = remaining - sequence.state().held()->scores.window.queries;
  if (before_window > 0) return std::min(budget, before_window);
  return remaining <= std::min(rows, fits) ? remaining : 0;
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
  const bool ends = fed + tokens == prompt.size();
  const bool compacts = held.stops.IsStop(fed + tokens) &&
                        NeedsCompaction(sequence.state().grant()->cache, fed + tokens);
  segment.score_resident = (ends || compacts) && WrittenOnDemand(held.scores.kind);
  segment.scored_layers = held.scores.layers;
  if (!ends) return segment;
  WantOutput(sequence, &segment);
  segment.window = held.scores.window;
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

StepSize Batch::size() const {
  StepSize size;
  for (const model::StepSegment& segment : step.segments) {
    if (segment.prompt) size.prompt_tokens += static_cast<uint32_t>(segment.tokens.size());
    if (!segment.prompt) ++size.decodes;
  }
  if (size.prompt_tokens > 0) size.context = attended / size.prompt_tokens;
  return size;
}

uint32_t Batch::rows() const {
  size_t rows = 0;
  for (const model::StepSegment& segment : step.segments) {
    rows += std::max<size_t>(segment.tokens.size(), 1);  // without tokens: the one sampled last
  }
  return static_cast<uint32_t>(rows);
}

Scheduler::Scheduler(const TokenBudget& budget, uint32_t max_rows,
                     const model::SequenceTables* tables)
    : chunks_(budget), max_rows_(max_rows), tables_(tables) {}

bool Scheduler::CanDecode(const Sequence& sequence) const {
  const SequenceState& state = sequence.state();
  return state.phase() == Phase::kDecode && !sequence.submission()->paused.load() &&
         state.progress().outputs_enqueued < sequence.request().max_new_tokens &&
         !sequence.answer().rules().MustWait(state.progress().outputs_enqueued) &&
         tables_->at(state.held()->slot).free_tokens() > 0;
}

uint32_t Scheduler::Context(const Sequence& sequence) const {
  return tables_->at(sequence.state().held()->slot).most_resident();
}

model::StepSegment Scheduler::DecodeSegment(const Sequence& sequence) const {
  const SequenceProgress& progress = sequence.state().progress();
  const HeldSlot& held = *sequence.state().held();
  model::StepSegment segment;
  segment.slot = held.slot;
  segment.first_position = Position(progress.fed);
  if (sequence.request().scoring()) {
    segment.tokens = {sequence.request().targets[progress.outputs_enqueued - 1]};
  } else if (progress.outputs_collected == progress.outputs_enqueued) {
    segment.tokens = {progress.last_token};
  } else if (const auto known = sequence.state().Known(progress.outputs_enqueued - 1)) {
    segment.tokens = {*known};
  }  // else the step that samples it is in flight, and the device takes the token from there
  segment.score_resident = WrittenOnDemand(held.scores.kind) && FillsPage(tables_->at(held.slot));
  segment.scored_layers = held.scores.layers;
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
  const uint32_t room = max_rows_ - decodes;
  AddPrompts(sequences, chunks_.Choose(decodes), room, &batch);
  return batch;
}

void Scheduler::AddPrompts(const SequenceList& sequences, PromptRoom room, uint32_t rows,
                           Batch* batch) const {
  std::vector<Sequence*> prompts;
  for (const auto& sequence : sequences) {
    if (sequence->state().phase() == Phase::kPrefill) prompts.push_back(sequence.get());
  }
  if (prompts.empty()) return;
  const Sequence* const oldest = prompts.front();
  std::stable_sort(prompts.begin(), prompts.end(), [](const Sequence* a, const Sequence* b) {
    return PromptTokensLeft(*a) < PromptTokensLeft(*b);
  });
  PromptRoom reserved;  // for the oldest, which comes last if others are shorter
  if (prompts.front() != oldest) {
    const auto at = std::find(prompts.begin(), prompts.end(), oldest);
    std::rotate(at, at + 1, prompts.end());
    reserved = room.TakeHalf(PromptTokensLeft(*oldest), Context(*oldest));
  }
  for (Sequence* sequence : prompts) {
    if (sequence == oldest) room.PutBack(reserved);
    const uint32_t context = Context(*sequence);
    const uint32_t budget = std::min(room.Tokens(ToNextStop(*sequence), context), rows);
    if (budget == 0) continue;
    const uint32_t tokens = NextChunk(*sequence, budget, rows,
                                      tables_->at(sequence->state().held()->slot).free_tokens());
    if (tokens == 0) continue;
    batch->step.segments.push_back(PromptSegment(*sequence, tokens));
    batch->sequences.push_back(sequence);
    batch->attended += tokens * (context + tokens / 2.0);
    room.Take(tokens, context);
    rows -= tokens;
  }
}

}  // namespace folio::worker
