#include "services/worker/batcher.h"

#include <algorithm>

namespace folio::worker {
namespace {

model::Sampling SamplingOf(const folio::v1::SamplingParams& params) {
  return {.temperature = params.temperature(),
          .top_k = params.top_k(),
          .top_p = params.has_top_p() ? params.top_p() : 1.0f,
          .min_p = params.min_p(),
          .seed = params.seed()};
}

void WantOutput(const Sequence& sequence, model::StepSegment* segment) {
  segment->want_output = true;
  segment->sampling = SamplingOf(sequence.request().sampling);
  segment->top_logprobs = sequence.request().top_logprobs;
  segment->target = sequence.target(sequence.outputs_enqueued);
}

bool CanDecode(const Sequence& sequence, const model::Executor& executor) {
  return sequence.phase == Phase::kDecode && !sequence.awaits_reply &&
         sequence.outputs_enqueued < sequence.request().max_new_tokens &&
         executor.free_tokens(sequence.slot) > 0;
}

model::StepSegment DecodeSegment(const Sequence& sequence, uint32_t page_tokens) {
  model::StepSegment segment;
  segment.slot = sequence.slot;
  segment.first_position = Position(sequence.fed);
  if (sequence.scoring()) {
    segment.tokens = {sequence.request().targets[sequence.outputs_enqueued - 1]};
  } else if (sequence.outputs == sequence.outputs_enqueued) {
    segment.tokens = {sequence.last_token};
  }  // else the device still works on it, and takes what it samples
  segment.score_resident =
      ScoredOnDemand(sequence.scores.kind) && sequence.fills_a_page(page_tokens);
  WantOutput(sequence, &segment);
  return segment;
}

// Tokens of the next chunk, when `rest` are left of the step's share and `room` of its rows.
uint32_t NextChunk(const Sequence& sequence, uint32_t rest, uint32_t room) {
  const uint32_t remaining = sequence.prompt_tokens() - sequence.fed;
  if (remaining <= rest) return remaining;
  const uint32_t before_window = remaining - sequence.window().queries;
  if (before_window > 0) return std::min(rest, before_window);
  return remaining <= room ? remaining : 0;
}

model::StepSegment PromptSegment(const Sequence& sequence, uint32_t tokens) {
  const std::vector<TokenId>& prompt = sequence.request().prompt;
  model::StepSegment segment;
  segment.slot = sequence.slot;
  segment.prompt = true;
  segment.first_position = Position(sequence.fed);
  segment.tokens.assign(prompt.begin() + sequence.fed, prompt.begin() + sequence.fed + tokens);
  if (sequence.fed + tokens < prompt.size()) return segment;
  WantOutput(sequence, &segment);
  segment.window = sequence.window();
  segment.score_resident = ScoredOnDemand(sequence.scores.kind);
  return segment;
}

}  // namespace

Batch ChooseBatch(const std::vector<std::unique_ptr<Sequence>>& sequences,
                  const model::Executor& executor, const PromptChunk& chunk, uint32_t page_tokens) {
  Batch batch;
  for (const auto& sequence : sequences) {
    if (!CanDecode(*sequence, executor)) continue;
    batch.step.segments.push_back(DecodeSegment(*sequence, page_tokens));
    batch.sequences.push_back(sequence.get());
  }
  const auto decodes = static_cast<uint32_t>(batch.sequences.size());
  uint32_t room = executor.max_rows() - decodes;
  uint32_t rest = std::min(chunk.alone, room);
  if (decodes > 0) rest = std::min(rest, chunk.beside_decodes);
  for (const auto& sequence : sequences) {
    if (rest == 0) break;
    if (sequence->phase != Phase::kPrefill) continue;
    const uint32_t tokens = NextChunk(*sequence, rest, room);
    if (tokens == 0) continue;
    batch.step.segments.push_back(PromptSegment(*sequence, tokens));
    batch.sequences.push_back(sequence.get());
    rest -= std::min(rest, tokens);
    room -= tokens;
  }
  return batch;
}

}  // namespace folio::worker
