#include "services/worker/rpc/event_messages.h"

#include <utility>
#include <variant>

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

void Fill(Started started, v1::Started* out) {
  out->set_sequence_id(started.sequence.value());
  out->set_prompt_tokens(started.prompt_tokens);
  out->mutable_cache()->ParseFromString(started.cache.bytes);
  out->set_seed(started.seed);
  out->set_resume_token(std::move(started.resume_token));
  out->set_replayed_tokens(started.replayed_tokens);
}

void Fill(TokenLogprob logprob, v1::TokenLogprob* out) {
  out->set_token(logprob.token.value());
  out->set_logprob(logprob.logprob);
  out->set_bytes(std::move(logprob.bytes));
  for (Candidate& candidate : logprob.top) {
    v1::Candidate* top = out->add_top();
    top->set_token(candidate.token.value());
    top->set_logprob(candidate.logprob);
    top->set_bytes(std::move(candidate.bytes));
  }
}

void Fill(TokenChunk chunk, v1::TokenChunk* out) {
  out->set_text(std::move(chunk.text));
  out->mutable_tokens()->Reserve(static_cast<int>(chunk.tokens.size()));
  for (const TokenId token : chunk.tokens) out->add_tokens(token.value());
  for (TokenLogprob& logprob : chunk.logprobs) Fill(std::move(logprob), out->add_logprobs());
}

void Fill(const Eviction& eviction, v1::EvictionEvent* out) {
  out->set_step(eviction.step);
  out->set_prompt_tokens(eviction.prompt_tokens.value());
  for (const Eviction::Layer& layer : eviction.layers) {
    v1::EvictionEvent::Layer* added = out->add_layers();
    added->mutable_kept()->Reserve(static_cast<int>(layer.kept.size()));
    for (const Position position : layer.kept) added->add_kept(position.value());
    added->set_dropped_block(
        layer.dropped_block ? static_cast<int32_t>(layer.dropped_block->value()) : -1);
  }
}

void Fill(const Usage& usage, v1::Usage* out) {
  out->set_prompt_tokens(usage.prompt_tokens);
  out->set_generated_tokens(usage.generated_tokens);
  out->set_queue_seconds(usage.queue_seconds);
  out->set_prefill_seconds(usage.prefill_seconds);
  out->set_time_to_first_token(usage.time_to_first_token);
  out->set_decode_seconds(usage.decode_seconds);
}

void Fill(const CacheStats& cache, v1::CacheStats* out) {
  out->set_resident_tokens(cache.resident_tokens);
  out->set_peak_resident_tokens(cache.peak_resident_tokens);
  out->set_held_pages(cache.held_pages);
  out->set_peak_held_pages(cache.peak_held_pages);
  out->set_resident_bytes(cache.resident_bytes);
  out->set_evicted_tokens(cache.evicted_tokens);
  out->set_evicted_pages(cache.evicted_pages);
  out->set_plans(cache.plans);
}

// The numbers of the two enumerations are equal.
static_assert(static_cast<int>(FinishReason::kEos) == v1::FINISH_REASON_EOS);
static_assert(static_cast<int>(FinishReason::kStop) == v1::FINISH_REASON_STOP);
static_assert(static_cast<int>(FinishReason::kLength) == v1::FINISH_REASON_LENGTH);

struct GenerateWriter {
  v1::GenerateResponse* out;

  void operator()(Started started) { Fill(std::move(started), out->mutable_started()); }
  void operator()(const Progress& progress) {
    out->mutable_prefill()->set_done_tokens(progress.done_tokens);
    out->mutable_prefill()->set_total_tokens(progress.total_tokens);
    out->mutable_prefill()->set_queue_position(progress.queue_position);
  }
  void operator()(TokenChunk chunk) { Fill(std::move(chunk), out->mutable_chunk()); }
  void operator()(const Eviction& eviction) { Fill(eviction, out->mutable_eviction()); }
  void operator()(Finished finished) {
    out->mutable_finished()->set_reason(static_cast<v1::FinishReason>(finished.reason));
    out->mutable_finished()->set_stop(std::move(finished.stop));
    if (finished.stop_token.has_value()) {
      out->mutable_finished()->set_stop_token(finished.stop_token->value());
    }
    Fill(finished.usage, out->mutable_finished()->mutable_usage());
    Fill(finished.cache, out->mutable_finished()->mutable_cache());
  }
};

struct ScoreWriter {
  v1::ScoreResponse* out;

  void operator()(const Started&) {}
  void operator()(const Progress&) {}
  void operator()(TokenChunk chunk) {
    for (TokenLogprob& logprob : chunk.logprobs) Fill(std::move(logprob), out->add_tokens());
  }
  void operator()(const Eviction& eviction) { Fill(eviction, out->add_evictions()); }
  void operator()(const Finished& finished) {
    Fill(finished.usage, out->mutable_usage());
    Fill(finished.cache, out->mutable_cache());
  }
};

}  // namespace

v1::GenerateResponse ToProto(Event event) {
  v1::GenerateResponse message;
  std::visit(GenerateWriter{&message}, std::move(event));
  return message;
}

void AddToProto(Event event, v1::ScoreResponse* response) {
  std::visit(ScoreWriter{response}, std::move(event));
}

}  // namespace folio::worker
