#include "services/manager/convert.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/common/protocol.h"
#include "services/common/refuse.h"

namespace folio::manager {
namespace {

// Of OpenSequence: 128 bits cannot be guessed, and nobody needs much more.
constexpr size_t kLeastResumeToken = 16;
constexpr size_t kMostResumeToken = 64;
constexpr size_t kMostOutputBytes = 16384;

struct ActionWriter {
  v1::EvictionPlan* out;
  void operator()(const cache::CompactAction& action) const {
    v1::CompactPlan* compact = out->mutable_compact();
    for (size_t i = 0; i < action.keep.size(); ++i) {
      v1::CompactPlan::Layer* layer = compact->add_layers();
      layer->set_spare_pages(action.spare[i].value());
      layer->mutable_keep()->Reserve(static_cast<int>(action.keep[i].size()));
      for (const SlotIndex slot : action.keep[i]) layer->add_keep(slot.value());
    }
  }
  void operator()(const cache::DropAction& action) const {
    v1::DropPagePlan* drop = out->mutable_drop_page();
    for (uint32_t layer = 0; layer < action.block.size(); ++layer) {
      if (!action.block[layer].has_value()) continue;
      drop->add_block_index(action.block[layer]->value());
      drop->add_layer(layer);
    }
    // The usual case, in which every layer drops one, needs no list.
    if (drop->layer_size() == static_cast<int>(action.block.size())) drop->clear_layer();
  }
};

}  // namespace

absl::StatusOr<cache::SamplingRecord> SamplingFromProto(const v1::SamplingParams& sampling) {
  cache::SamplingRecord record;
  record.temperature = sampling.temperature();
  record.top_k = sampling.top_k();
  record.top_p = sampling.has_top_p() ? sampling.top_p() : 1.0F;
  record.min_p = sampling.min_p();
  record.seed = sampling.seed();
  // Written so that NaN fails too.
  if (!(record.temperature >= 0) || std::isinf(record.temperature)) {
    return Refuse("sampling.temperature: must be a finite number, 0 or more");
  }
  if (!(record.top_p > 0 && record.top_p <= 1)) {
    return Refuse("sampling.top_p: must be above 0 and at most 1");
  }
  if (!(record.min_p >= 0 && record.min_p <= 1)) {
    return Refuse("sampling.min_p: must be from 0 to 1");
  }
  if (record.temperature > 0 && !sampling.has_seed()) {
    return Refuse(
        "sampling.seed: must be set when temperature is above 0, so that another "
        "worker can continue the sequence");
  }
  return record;
}

absl::StatusOr<cache::OpenRequest> OpenFromProto(const v1::OpenSequence& open, WorkerId worker,
                                                 const CacheRules& rules) {
  if (open.label().size() > kMaxLabelBytes) {
    return Refuse("label: has ", open.label().size(), " bytes; at most ", kMaxLabelBytes);
  }
  const size_t token = open.resume_token().size();
  if (token != 0 && (token < kLeastResumeToken || token > kMostResumeToken)) {
    return Refuse("resume_token: has ", token, " bytes; give none, or from ", kLeastResumeToken,
                  " to ", kMostResumeToken);
  }
  if (open.output().ByteSizeLong() > kMostOutputBytes) {
    return Refuse("output: has ", open.output().ByteSizeLong(), " bytes; at most ",
                  kMostOutputBytes);
  }
  auto sampling = SamplingFromProto(open.sampling());
  if (!sampling.ok()) return sampling.status();
  const RequestShape shape = {static_cast<uint64_t>(open.prompt_tokens_size()),
                              open.max_new_tokens(), sampling->seed};
  auto config = CacheConfigFromProto(open.cache(), rules, shape);
  if (!config.ok()) return config.status();
  cache::OpenRequest request;
  request.worker = worker;
  request.prompt.reserve(open.prompt_tokens_size());
  for (const uint32_t token : open.prompt_tokens()) request.prompt.emplace_back(token);
  request.max_new_tokens = TokenCount(open.max_new_tokens());
  request.cache = *config;
  request.notes.sampling = *sampling;
  request.notes.label = open.label();
  request.notes.resume_token = open.resume_token();
  request.notes.output = open.output().SerializeAsString();
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

v1::LayerPages PagesToProto(const cache::PageList& pages) {
  v1::LayerPages out;
  out.mutable_pages()->Reserve(static_cast<int>(pages.size()));
  out.mutable_generations()->Reserve(static_cast<int>(pages.size()));
  for (const PageRef& ref : pages) {
    out.add_pages(ref.page.value());
    out.add_generations(ref.generation.value());
  }
  return out;
}

v1::OpenResult OpenedToProto(const cache::Opened& opened) {
  v1::OpenResult result;
  result.set_sequence_id(opened.sequence.value());
  result.set_lease_epoch(opened.lease_epoch.value());
  *result.mutable_cache() = CacheConfigToProto(opened.cache);
  for (const cache::PageList& pages : opened.pages) *result.add_layers() = PagesToProto(pages);
  *result.mutable_scores() = ScoreNeedToProto(opened.scores);
  *result.mutable_prompt_scores() = ScoreNeedToProto(opened.prompt_scores);
  return result;
}

v1::PageGrant GrantToProto(SequenceId sequence, const cache::LayerPageLists& pages) {
  v1::PageGrant grant;
  grant.set_sequence_id(sequence.value());
  for (const cache::PageList& list : pages) *grant.add_layers() = PagesToProto(list);
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
