// What goes from one worker to the next through the manager; the third part of convert.h.
#include <utility>

#include "services/manager/convert.h"

namespace folio::manager {
namespace {

v1::SamplingParams SamplingToProto(const cache::SamplingRecord& record) {
  v1::SamplingParams sampling;
  sampling.set_temperature(record.temperature);
  sampling.set_top_k(record.top_k);
  sampling.set_top_p(record.top_p);
  sampling.set_min_p(record.min_p);
  sampling.set_seed(record.seed);
  return sampling;
}

void WriteTable(const cache::LayerTableInfo& table, v1::ClaimResult::Layer* out) {
  *out->mutable_pages() = PagesToProto(table.pages);
  for (const cache::PositionRange& run : table.kept) {
    out->add_runs(run.begin.value());
    out->add_runs(run.end.value());
  }
}

}  // namespace

cache::ClaimRequest ClaimFromProto(const v1::ClaimSequence& claim, WorkerId worker) {
  return {worker, SequenceId(claim.sequence_id()), claim.resume_token()};
}

v1::ClaimResult ClaimedToProto(const cache::Claimed& claimed) {
  v1::ClaimResult out;
  out.set_sequence_id(claimed.sequence.value());
  out.set_lease_epoch(claimed.lease_epoch.value());
  *out.mutable_cache() = CacheConfigToProto(claimed.cache);
  *out.mutable_sampling() = SamplingToProto(claimed.sampling);
  // It came from a message of this type.
  out.mutable_output()->ParseFromString(claimed.output);
  out.set_label(claimed.label);
  out.set_max_new_tokens(claimed.max_new_tokens.value());
  out.set_prompt_tokens(claimed.prompt_tokens.value());
  for (const TokenId token : claimed.tokens) out.add_tokens(token.value());
  out.set_logical_length(claimed.logical_length.value());
  for (const cache::LayerTableInfo& table : claimed.layers) WriteTable(table, out.add_layers());
  out.set_evicted_pages(claimed.evicted_pages.value());
  *out.mutable_scores() = ScoreNeedToProto(claimed.scores);
  *out.mutable_prompt_scores() = ScoreNeedToProto(claimed.prompt_scores);
  if (claimed.plan.has_value()) *out.mutable_plan() = PlanToProto(*claimed.plan);
  return out;
}

}  // namespace folio::manager
