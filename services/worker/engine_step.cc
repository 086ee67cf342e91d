// Engine: enqueueing steps, and what becomes of their results.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/check.h"
#include "services/worker/engine.h"

namespace folio::worker {

namespace v1 = folio::v1;

void Engine::Enqueue(Batch batch) {
  const absl::Time start = absl::Now();
  InFlight step;
  step.ticket = executor_->Enqueue(batch.step);
  totals_.step_seconds += absl::ToDoubleSeconds(absl::Now() - start);
  ++totals_.steps;
  ++enqueued_;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    Sequence* sequence = batch.sequences[i];
    const model::StepSegment& segment = batch.step.segments[i];
    const uint32_t tokens = segment.prompt ? static_cast<uint32_t>(segment.tokens.size()) : 1;
    sequence->fed += tokens;
    sequence->outputs_enqueued += segment.want_output ? 1 : 0;
    sequence->busy_until = enqueued_;
    sequence->ledger.AddTokens(tokens);
    Entry entry{sequence, segment.want_output, tokens, sequence->fed, {}};
    if (segment.prompt) {
      totals_.prompt_tokens += tokens;
      if (segment.want_output) {
        sequence->phase = sequence->needs_compaction() ? Phase::kAwaitPlan : Phase::kDecode;
      }
    } else {
      totals_.decode_tokens += 1;
      // Read now: once the next step is enqueued, the newest page is another.
      for (uint32_t layer = 0; layer < options_.geometry.num_layers; ++layer) {
        if (sequence->ledger.resident[layer] % options_.geometry.page_tokens != 0) continue;
        entry.filled.push_back(executor_->NewestPage(sequence->slot, LayerIndex(layer)));
      }
      if (!entry.filled.empty()) {
        sequence->awaits_reply = sequence->synchronous();
        sequence->awaited_step = 0;
      }
    }
    step.entries.push_back(std::move(entry));
  }
  in_flight_.push_back(std::move(step));
}

void Engine::CollectOldest() {
  InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  const absl::Time start = absl::Now();
  const model::StepOutput result = executor_->Collect(step.ticket);
  totals_.step_seconds += absl::ToDoubleSeconds(absl::Now() - start);
  ++collected_;
  if (!executor_->fault().ok()) return;  // the end: see RunBoundary
  if (!result.status.ok()) {
    for (const Entry& entry : step.entries) {
      End(entry.sequence, v1::CLOSE_REASON_ERROR,
          absl::InternalError(absl::StrCat("the device failed: ", result.status.message())));
    }
    return;
  }
  // The client has its answer already (or gave up): what the device did since is dropped. SendDue
  // may let go of such a sequence.
  for (Entry& entry : step.entries) {
    if (entry.sequence->phase == Phase::kClosing) entry.sequence = nullptr;
  }
  // A plan must be acknowledged before the manager hears of tokens written after it.
  SendDue();

  std::vector<Delivery> deliveries;
  auto output = result.outputs.begin();
  std::erase_if(step.entries, [&](const Entry& entry) {
    const model::SegmentOutput* mine = nullptr;
    if (entry.output) {
      FOLIO_CHECK(output != result.outputs.end());
      mine = &*output++;
    }
    Sequence* sequence = entry.sequence;
    if (sequence == nullptr) return true;
    sequence->committed = entry.logical_length;
    Delivery delivery{sequence, {}, false};
    if (entry.logical_length <= sequence->prompt_tokens()) {
      delivery.events.push_back(ProgressEvent(*sequence, entry.logical_length));
    }
    if (mine != nullptr) TakeOutput(*mine, &delivery);
    deliveries.push_back(std::move(delivery));
    return false;
  });
  Commit(step.entries, deliveries);
  // What the manager will not hear of, nobody may.
  if (link_->status().ok()) Deliver(std::move(deliveries));
}

void Engine::TakeOutput(const model::SegmentOutput& output, Delivery* delivery) {
  Sequence* sequence = delivery->sequence;
  const SequenceRequest& request = sequence->request();
  sequence->newest_token = absl::Now();
  if (sequence->outputs == 0) sequence->first_token = sequence->newest_token;
  ++sequence->outputs;
  sequence->last_token = output.token;

  v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
  TextStream::Piece piece;
  if (!request.ignore_eos && !sequence->scoring() && tokenizer_->IsEos(output.token)) {
    reason = v1::FINISH_REASON_EOS;
  } else if (!sequence->scoring()) {
    piece = sequence->text.Feed(output.token);
  }
  v1::TokenChunk* held = &sequence->held;
  held->mutable_text()->append(piece.text);
  // The tokens before this one are complete, though this one is not.
  if (!piece.whole && !piece.text.empty() && held->tokens_size() > 0) {
    EmitChunk(sequence, delivery);
  }
  held->add_tokens(output.token.value());
  if (request.top_logprobs >= 0) AddLogprob(output, *tokenizer_, held);
  if (piece.stop) {
    reason = v1::FINISH_REASON_STOP;
  } else if (reason == v1::FINISH_REASON_UNSPECIFIED &&
             sequence->outputs == request.max_new_tokens) {
    reason = v1::FINISH_REASON_LENGTH;
  }
  if (reason == v1::FINISH_REASON_UNSPECIFIED) {
    if (piece.whole) EmitChunk(sequence, delivery);
    return;
  }
  if (!piece.stop && !sequence->scoring()) {
    piece = sequence->text.Finish();
    held->mutable_text()->append(piece.text);
    if (piece.stop) reason = v1::FINISH_REASON_STOP;
  }
  EmitChunk(sequence, delivery);
  delivery->events.push_back(
      FinishedEvent(*sequence, options_.geometry, reason, piece.stop.value_or("")));
  delivery->done = true;
}

void Engine::EmitChunk(Sequence* sequence, Delivery* delivery) {
  v1::GenerateResponse event;
  v1::TokenChunk* chunk = event.mutable_chunk();
  *chunk = std::move(sequence->held);
  sequence->held.Clear();
  const std::optional<ResumeRequest>& resume = sequence->request().resume;
  const uint32_t received = resume ? static_cast<uint32_t>(resume->received.size()) : 0;
  const auto tokens = static_cast<uint32_t>(chunk->tokens_size());
  const uint32_t known = std::min(tokens, received - std::min(received, sequence->emitted));
  sequence->emitted += tokens;
  if (known == tokens) return;  // the client has all of it
  if (known > 0) {
    chunk->mutable_tokens()->erase(chunk->tokens().begin(), chunk->tokens().begin() + known);
    const int logprobs = std::min(chunk->logprobs_size(), static_cast<int>(known));
    chunk->mutable_logprobs()->DeleteSubrange(0, logprobs);
  }
  delivery->events.push_back(std::move(event));
}

void Engine::Commit(const std::vector<Entry>& entries, const std::vector<Delivery>& deliveries) {
  if (entries.empty()) return;
  v1::SessionRequest request;
  for (const Entry& entry : entries) {
    v1::CommitTokens* commit = request.add_commit();
    commit->set_sequence_id(entry.sequence->id.value());
    commit->set_lease_epoch(entry.sequence->lease_epoch.value());
    commit->set_logical_length(entry.logical_length);
    if (entry.output) commit->add_sampled_tokens(entry.sequence->last_token.value());
    for (const PageRef& ref : entry.filled) {
      v1::PageRef* filled = commit->add_filled();
      filled->set_page(ref.page.value());
      filled->set_generation(ref.generation.value());
    }
  }
  const uint64_t step = link_->Send(std::move(request));
  for (const Entry& entry : entries) {
    if (!entry.filled.empty() && entry.sequence->awaits_reply) entry.sequence->awaited_step = step;
  }
}

void Engine::Deliver(std::vector<Delivery> deliveries) {
  for (Delivery& delivery : deliveries) {
    Sequence* sequence = delivery.sequence;
    for (v1::GenerateResponse& event : delivery.events) {
      sequence->submission->sink->Event(std::move(event));
    }
    if (delivery.done) End(sequence, v1::CLOSE_REASON_FINISHED, absl::OkStatus());
  }
}

}  // namespace folio::worker
