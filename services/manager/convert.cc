#include "services/manager/convert.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/common/protocol.h"

namespace folio::manager {
namespace {

absl::Status BadField(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", why));
}

absl::StatusOr<policy::PolicySpec> PolicyFromProto(const v1::CacheOptions& options) {
  if (!options.has_policy()) return policy::FullSpec{};
  switch (options.policy().kind_case()) {
    case v1::Policy::kFull:
      return policy::FullSpec{};
    case v1::Policy::kPagedEviction:
      return policy::PagedEvictionSpec{};
    case v1::Policy::kStreamingLlm:
      return policy::StreamingLlmSpec{};
    case v1::Policy::KIND_NOT_SET:
      break;
  }
  return BadField("cache.policy",
                  "no known kind is set; use full, paged_eviction or streaming_llm");
}

// The cache keeps every token under `full`, so that there is nothing to protect: whoever asks for
// it means another policy. 0 says as much as leaving it out.
absl::Status CheckUnprotected(absl::string_view field, uint32_t tokens) {
  if (tokens == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " ", tokens, " does not go with policy full, which keeps every token: leave ", field,
      " out or choose a policy that evicts"));
}

struct PolicyWriter {
  v1::Policy* out;
  void operator()(const policy::FullSpec&) const { out->mutable_full(); }
  void operator()(const policy::PagedEvictionSpec&) const { out->mutable_paged_eviction(); }
  void operator()(const policy::StreamingLlmSpec&) const { out->mutable_streaming_llm(); }
};

void WritePages(const cache::PageList& pages, v1::LayerPages* out) {
  out->mutable_pages()->Reserve(static_cast<int>(pages.size()));
  out->mutable_generations()->Reserve(static_cast<int>(pages.size()));
  for (const PageRef& ref : pages) {
    out->add_pages(ref.page.value());
    out->add_generations(ref.generation.value());
  }
}

struct ActionWriter {
  v1::EvictionPlan* out;
  void operator()(const cache::CompactAction& action) const {
    v1::CompactPlan* compact = out->mutable_compact();
    compact->set_spare_pages(action.spare.value());
    for (const std::vector<SlotIndex>& keep : action.keep) {
      v1::CompactPlan::Layer* layer = compact->add_layers();
      layer->mutable_keep()->Reserve(static_cast<int>(keep.size()));
      for (const SlotIndex slot : keep) layer->add_keep(slot.value());
    }
  }
  void operator()(const cache::DropAction& action) const {
    v1::DropPagePlan* drop = out->mutable_drop_page();
    for (const BlockIndex block : action.block) drop->add_block_index(block.value());
  }
};

}  // namespace

absl::StatusOr<policy::CacheConfig> CacheConfigFromProto(const v1::CacheOptions& options,
                                                         uint32_t page_tokens) {
  auto spec = PolicyFromProto(options);
  if (!spec.ok()) return spec.status();
  policy::CacheConfig config;
  config.policy = *spec;
  config.budget = TokenCount(options.budget_tokens());
  if (std::holds_alternative<policy::FullSpec>(*spec)) {
    absl::Status status = CheckUnprotected("sink_tokens", options.sink_tokens());
    status.Update(CheckUnprotected("recent_tokens", options.recent_tokens()));
    if (!status.ok()) return status;
  } else {
    config.sink = TokenCount(options.has_sink_tokens() ? options.sink_tokens() : page_tokens);
    config.recent = TokenCount(options.has_recent_tokens() ? options.recent_tokens() : page_tokens);
  }
  switch (options.eviction_mode()) {
    case v1::EVICTION_MODE_UNSPECIFIED:
    case v1::EVICTION_MODE_PIPELINED:
      config.mode = policy::EvictionMode::kPipelined;
      return config;
    case v1::EVICTION_MODE_SYNCHRONOUS:
      config.mode = policy::EvictionMode::kSynchronous;
      return config;
    default:
      return BadField("cache.eviction_mode",
                      absl::StrCat("unknown value ", static_cast<int>(options.eviction_mode()),
                                   "; use EVICTION_MODE_PIPELINED or EVICTION_MODE_SYNCHRONOUS"));
  }
}

v1::CacheOptions CacheConfigToProto(const policy::CacheConfig& config) {
  v1::CacheOptions options;
  std::visit(PolicyWriter{options.mutable_policy()}, config.policy);
  options.set_budget_tokens(config.budget.value());
  options.set_sink_tokens(config.sink.value());
  options.set_recent_tokens(config.recent.value());
  options.set_eviction_mode(config.mode == policy::EvictionMode::kSynchronous
                                ? v1::EVICTION_MODE_SYNCHRONOUS
                                : v1::EVICTION_MODE_PIPELINED);
  return options;
}

absl::StatusOr<cache::SamplingRecord> SamplingFromProto(const v1::SamplingParams& sampling) {
  cache::SamplingRecord record;
  record.temperature = sampling.temperature();
  record.top_k = sampling.top_k();
  record.top_p = sampling.has_top_p() ? sampling.top_p() : 1.0F;
  record.min_p = sampling.min_p();
  record.seed = sampling.seed();
  // Written so that NaN fails too.
  if (!(record.temperature >= 0) || std::isinf(record.temperature)) {
    return BadField("sampling.temperature", "must be a finite number, 0 or more");
  }
  if (!(record.top_p > 0 && record.top_p <= 1)) {
    return BadField("sampling.top_p", "must be above 0 and at most 1");
  }
  if (!(record.min_p >= 0 && record.min_p <= 1)) {
    return BadField("sampling.min_p", "must be from 0 to 1");
  }
  if (record.temperature > 0 && !sampling.has_seed()) {
    return BadField("sampling.seed",
                    "must be set when temperature is above 0, so that another "
                    "worker can continue the sequence");
  }
  return record;
}

absl::StatusOr<cache::OpenRequest> OpenFromProto(const v1::OpenSequence& open, WorkerId worker,
                                                 uint32_t page_tokens) {
  if (open.label().size() > kMaxLabelBytes) {
    return BadField("label",
                    absl::StrCat("has ", open.label().size(), " bytes; at most ", kMaxLabelBytes));
  }
  auto config = CacheConfigFromProto(open.cache(), page_tokens);
  if (!config.ok()) return config.status();
  auto sampling = SamplingFromProto(open.sampling());
  if (!sampling.ok()) return sampling.status();
  cache::OpenRequest request;
  request.worker = worker;
  request.prompt.reserve(open.prompt_tokens_size());
  for (const uint32_t token : open.prompt_tokens()) request.prompt.emplace_back(token);
  request.max_new_tokens = TokenCount(open.max_new_tokens());
  request.cache = *config;
  request.sampling = *sampling;
  request.label = open.label();
  return request;
}

cache::CommitRequest CommitFromProto(const v1::CommitTokens& commit, WorkerId worker) {
  cache::CommitRequest request;
  request.worker = worker;
  request.sequence = SequenceId(commit.sequence_id());
  request.lease_epoch = LeaseEpoch(commit.lease_epoch());
  request.logical_length = TokenCount(commit.logical_length());
  request.sampled.reserve(commit.sampled_tokens_size());
  for (const uint32_t token : commit.sampled_tokens()) request.sampled.emplace_back(token);
  request.filled.reserve(commit.filled_size());
  for (const v1::PageRef& ref : commit.filled()) {
    request.filled.push_back({PageId(ref.page()), Generation(ref.generation())});
  }
  return request;
}

v1::OpenResult OpenedToProto(const cache::Opened& opened) {
  v1::OpenResult result;
  result.set_sequence_id(opened.sequence.value());
  result.set_lease_epoch(opened.lease_epoch.value());
  *result.mutable_cache() = CacheConfigToProto(opened.cache);
  for (const cache::PageList& pages : opened.pages) WritePages(pages, result.add_layers());
  return result;
}

v1::PageGrant GrantToProto(SequenceId sequence, const cache::LayerPageLists& pages) {
  v1::PageGrant grant;
  grant.set_sequence_id(sequence.value());
  for (const cache::PageList& list : pages) WritePages(list, grant.add_layers());
  return grant;
}

v1::EvictionPlan PlanToProto(const cache::Plan& plan) {
  v1::EvictionPlan out;
  out.set_sequence_id(plan.sequence.value());
  out.set_plan_epoch(plan.epoch.value());
  std::visit(ActionWriter{&out}, plan.action);
  return out;
}

std::string WorkerName(WorkerId worker) { return absl::StrCat("w", worker.value()); }

}  // namespace folio::manager
