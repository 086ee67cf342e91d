#include "services/worker/sequence.h"

#include <algorithm>
#include <string>
#include <utility>

namespace folio::worker {

namespace v1 = folio::v1;

void CacheLedger::AddPages(uint32_t count) {
  pages += count;
  peak_pages = std::max(peak_pages, pages);
}

void CacheLedger::AddTokens(uint32_t count) {
  for (uint32_t& tokens : resident) tokens += count;
  peak_tokens = std::max(peak_tokens, most());
}

uint32_t CacheLedger::most() const { return *std::max_element(resident.begin(), resident.end()); }
uint32_t CacheLedger::least() const { return *std::min_element(resident.begin(), resident.end()); }

uint32_t Sequence::least_budget() const {
  const auto& budgets = cache.layer_budget_tokens();
  return budgets.empty() ? cache.budget_tokens()
                         : *std::min_element(budgets.begin(), budgets.end());
}

bool Sequence::fills_a_page(uint32_t page_tokens) const {
  return std::any_of(ledger.resident.begin(), ledger.resident.end(),
                     [&](uint32_t tokens) { return (tokens + 1) % page_tokens == 0; });
}

model::WindowScore Sequence::window() const {
  model::WindowScore window = scores.window;
  // The second plane is for the decision at the prompt's end alone.
  if (window.plane != 0 && !needs_compaction()) return {};
  window.queries = std::min(window.queries, prompt_tokens());
  return window;
}

std::optional<TokenId> Sequence::target(uint32_t at) const {
  if (scoring()) return request().targets[at];
  const std::optional<ResumeRequest>& resume = request().resume;
  if (resume.has_value() && at < resume->received.size()) return resume->received[at];
  return std::nullopt;
}

Sequence::Sequence(uint64_t tag, std::shared_ptr<Submission> submission,
                   const model::Tokenizer* tokenizer)
    : tag(tag), submission(std::move(submission)), text(tokenizer, request().stop) {}

v1::OpenSequence OpenOf(const Sequence& sequence) {
  const SequenceRequest& request = sequence.request();
  v1::OpenSequence open;
  open.set_request_tag(sequence.tag);
  for (const TokenId token : request.prompt) open.add_prompt_tokens(token.value());
  open.set_max_new_tokens(request.max_new_tokens);
  *open.mutable_cache() = request.cache;
  *open.mutable_sampling() = request.sampling;
  open.set_label(request.label);
  open.set_resume_token(request.resume_token);
  v1::OutputOptions* output = open.mutable_output();
  for (const std::string& stop : request.stop) output->add_stop(stop);
  output->set_ignore_eos(request.ignore_eos);
  if (request.top_logprobs >= 0) {
    output->set_logprobs(static_cast<uint32_t>(request.top_logprobs));
  }
  return open;
}

v1::ClaimSequence ClaimOf(const Sequence& sequence) {
  v1::ClaimSequence claim;
  claim.set_request_tag(sequence.tag);
  claim.set_sequence_id(sequence.request().resume->sequence.value());
  claim.set_resume_token(sequence.request().resume_token);
  return claim;
}

v1::GenerateResponse StartedEvent(const Sequence& sequence) {
  v1::GenerateResponse event;
  v1::Started* started = event.mutable_started();
  started->set_sequence_id(sequence.id.value());
  started->set_prompt_tokens(sequence.prompt_tokens());
  *started->mutable_cache() = sequence.cache;
  started->set_seed(sequence.request().sampling.seed());
  started->set_resume_token(sequence.request().resume_token);
  return event;
}

v1::GenerateResponse ProgressEvent(const Sequence& sequence, uint32_t done) {
  v1::GenerateResponse event;
  event.mutable_prefill()->set_done_tokens(done);
  event.mutable_prefill()->set_total_tokens(sequence.prompt_tokens());
  return event;
}

v1::GenerateResponse FinishedEvent(const Sequence& sequence, const CacheGeometry& geometry,
                                   v1::FinishReason reason, std::string stop) {
  v1::GenerateResponse event;
  v1::Finished* finished = event.mutable_finished();
  finished->set_reason(reason);
  finished->set_stop(std::move(stop));

  v1::Usage* usage = finished->mutable_usage();
  const absl::Time arrival = sequence.request().arrival;
  usage->set_prompt_tokens(sequence.prompt_tokens());
  usage->set_generated_tokens(sequence.outputs);
  usage->set_queue_seconds(absl::ToDoubleSeconds(sequence.admitted - arrival));
  usage->set_prefill_seconds(absl::ToDoubleSeconds(sequence.first_token - sequence.admitted));
  usage->set_time_to_first_token(absl::ToDoubleSeconds(sequence.first_token - arrival));
  usage->set_decode_seconds(absl::ToDoubleSeconds(sequence.newest_token - sequence.first_token));

  const CacheLedger& ledger = sequence.ledger;
  v1::CacheStats* cache = finished->mutable_cache();
  const uint32_t ahead = sequence.fed - sequence.committed;  // steps still to be collected
  cache->set_resident_tokens(ledger.most() - ahead);
  cache->set_peak_resident_tokens(ledger.peak_tokens);
  cache->set_held_pages(ledger.pages);
  cache->set_peak_held_pages(ledger.peak_pages);
  uint64_t resident = 0;
  for (const uint32_t tokens : ledger.resident) resident += tokens - ahead;
  cache->set_resident_bytes(resident * geometry.kv_bytes_per_token() / geometry.num_layers);
  cache->set_evicted_tokens(sequence.fed - ledger.least());
  cache->set_evicted_pages(ledger.evicted_pages);
  cache->set_plans(ledger.plans);
  return event;
}

void AddLogprob(const model::SegmentOutput& output, const model::Tokenizer& tokenizer,
                v1::TokenChunk* chunk) {
  v1::TokenLogprob* logprob = chunk->add_logprobs();
  logprob->set_token(output.token.value());
  logprob->set_logprob(output.logprob);
  for (const auto& [token, value] : output.top) {
    v1::Candidate* candidate = logprob->add_top();
    candidate->set_token(token.value());
    candidate->set_logprob(value);
    if (absl::StatusOr<std::string> bytes = tokenizer.TokenBytes(token); bytes.ok()) {
      candidate->set_bytes(*std::move(bytes));
    }
  }
}

}  // namespace folio::worker
