#include "services/manager/journal_messages.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/manager/cache_options.h"
#include "services/wire/sampling.h"
#include "services/wire/sampling_check.h"
#include "services/wire/sequence.h"

namespace folio::manager {
namespace {

using cache::SavedSequence;
using cache::SwapUse;

absl::Status Wrong(const state::JournalSequence& message, absl::string_view why) {
  return absl::InternalError(absl::StrCat("sequence ", message.id(), ": ", why));
}

absl::StatusOr<policy::CacheConfig> ReadCache(const v1::CacheOptions& options,
                                              const state::JournalSequence& message,
                                              const CacheGeometry& geometry) {
  // The operator's rules of today are for new requests.
  const CacheRules rules = {geometry.page_tokens, geometry.num_layers, {}};
  const RequestShape shape = {message.prompt_tokens(), message.max_new_tokens(),
                              message.sampling().seed()};
  auto config = CacheConfigFromProto(options, rules, shape);
  if (config.ok()) {
    absl::Status valid = policy::Validate(*config, geometry.page_tokens, geometry.num_layers);
    if (!valid.ok()) return Wrong(message, valid.message());
    return config;
  }
  return Wrong(message, config.status().message());
}

absl::Status ReadRequest(const state::JournalSequence& message, const CacheGeometry& geometry,
                         SavedSequence* saved) {
  const auto prompt = static_cast<int>(message.prompt_tokens());
  if (prompt <= 0 || prompt > message.tokens_size()) {
    return Wrong(message, "it has fewer tokens than its prompt");
  }
  if (uint64_t{message.prompt_tokens()} + message.max_new_tokens() > UINT32_MAX ||
      message.logical_length() > static_cast<uint32_t>(message.tokens_size())) {
    return Wrong(message, "it is longer than its tokens or than any sequence");
  }
  cache::OpenRequest& request = saved->request;
  request.worker = WorkerId(message.worker());
  for (int i = 0; i < message.tokens_size(); ++i) {
    (i < prompt ? request.prompt : saved->sampled).emplace_back(message.tokens(i));
  }
  request.max_new_tokens = TokenCount(message.max_new_tokens());
  auto cache = ReadCache(message.cache(), message, geometry);
  if (!cache.ok()) return cache.status();
  request.cache = *std::move(cache);
  saved->cache = request.cache;
  if (message.has_lowered_cache()) {
    auto lowered = ReadCache(message.lowered_cache(), message, geometry);
    if (!lowered.ok()) return lowered.status();
    saved->cache = *std::move(lowered);
  }
  auto sampling = wire::CheckSampling(wire::FromProto(message.sampling()));
  if (!sampling.ok()) return Wrong(message, sampling.status().message());
  request.metadata = {.sampling = *std::move(sampling),
                      .label = message.label(),
                      .resume_token = message.resume_token(),
                      .output = message.output()};
  request.abilities = {.prefill_ahead = TokenCount(message.prefill_ahead_tokens()),
                       .parks = message.parks(),
                       .streams = message.streams(),
                       .swaps = message.swaps()};
  request.urgency = {message.priority(), absl::Nanoseconds(message.waited_ns())};
  request.tenant = message.tenant();
  return absl::OkStatus();
}

// One for each page with tokens.
bool SlotsSuffice(const SavedSequence& saved, const CacheGeometry& geometry) {
  size_t pages = 0;
  for (const cache::BlockTable& table : saved.layers) {
    pages += geometry.pages_for(table.resident().value());
  }
  return pages <= saved.slots.size();
}

bool DropsFullBlocks(const SavedSequence& saved, const CacheGeometry& geometry) {
  const auto& block = std::get<DropAction>(saved.plan->action).block;
  if (block.size() != saved.layers.size()) return false;
  for (size_t layer = 0; layer < block.size(); ++layer) {
    if (!block[layer].has_value()) continue;
    const uint64_t end = (uint64_t{block[layer]->value()} + 1) * geometry.page_tokens;
    if (end > saved.layers[layer].resident().value()) return false;
  }
  return true;
}

absl::Status ReadContents(const state::JournalSequence& message, const CacheGeometry& geometry,
                          SavedSequence* saved) {
  if (static_cast<uint32_t>(message.layers_size()) != geometry.num_layers) {
    return Wrong(message, "it has another number of layers");
  }
  if (message.swap() > static_cast<uint32_t>(SwapUse::kIn)) {
    return Wrong(message, "its use of swap memory is unknown");
  }
  saved->swap = static_cast<SwapUse>(message.swap());
  for (const uint32_t slot : message.slots()) saved->slots.emplace_back(slot);
  const bool swapped = saved->swap == SwapUse::kOut || saved->swap == SwapUse::kIn;
  for (const v1::ClaimResult::Layer& layer : message.layers()) {
    PageList pages;
    if (!wire::ReadPages(layer.pages(), &pages) || layer.runs_size() % 2 != 0) {
      return Wrong(message, "a layer is malformed");
    }
    std::vector<PositionRange> positions;
    for (int i = 0; i < layer.runs_size(); i += 2) {
      positions.push_back({Position(layer.runs(i)), Position(layer.runs(i + 1))});
    }
    // Later tokens follow these, and without pages a table is as large as they say.
    if (!positions.empty() && positions.back().end.value() > message.logical_length()) {
      return Wrong(message, "a position lies behind its length");
    }
    auto table = cache::MakeTable(geometry.page_tokens, pages, positions, swapped && pages.empty());
    if (!table.ok()) return Wrong(message, table.status().message());
    saved->layers.push_back(*std::move(table));
  }
  if (swapped && !SlotsSuffice(*saved, geometry)) return Wrong(message, "it has too few slots");
  if (message.has_plan()) {
    saved->plan = wire::FromProto(message.plan(), geometry.num_layers);
    if (!std::holds_alternative<DropAction>(saved->plan->action)) {
      return Wrong(message, "its plan is not a drop");
    }
    if (!DropsFullBlocks(*saved, geometry)) {
      return Wrong(message, "its plan drops a block that is not full");
    }
  }
  saved->shrinking = {{message.shrinking_held().begin(), message.shrinking_held().end()},
                      message.shrinking_begun(),
                      message.shrinking_plans()};
  if (saved->shrinking.active() && saved->shrinking.held().size() != geometry.num_layers) {
    return Wrong(message, "its way to a lower budget is of another number of layers");
  }
  return absl::OkStatus();
}

}  // namespace

void ToMessage(const SavedSequence& saved, state::JournalSequence* out) {
  const cache::OpenRequest& request = saved.request;
  out->set_id(saved.id.value());
  out->set_worker(request.worker.value());
  out->set_lease_epoch(saved.lease_epoch.value());
  out->mutable_tokens()->Reserve(static_cast<int>(request.prompt.size() + saved.sampled.size()));
  for (const TokenId token : request.prompt) out->add_tokens(token.value());
  for (const TokenId token : saved.sampled) out->add_tokens(token.value());
  out->set_prompt_tokens(static_cast<uint32_t>(request.prompt.size()));
  out->set_max_new_tokens(request.max_new_tokens.value());
  *out->mutable_cache() = CacheConfigToProto(request.cache);
  v1::CacheOptions now = CacheConfigToProto(saved.cache);
  if (now.SerializeAsString() != out->cache().SerializeAsString()) {
    *out->mutable_lowered_cache() = std::move(now);
  }
  *out->mutable_sampling() = wire::ToProto(wire::ParametersOf(request.metadata.sampling));
  out->set_output(request.metadata.output);
  out->set_label(request.metadata.label);
  out->set_resume_token(request.metadata.resume_token);
  out->set_tenant(request.tenant);
  out->set_priority(request.urgency.priority);
  out->set_waited_ns(absl::ToInt64Nanoseconds(request.urgency.waited));
  out->set_opened_ns(absl::ToInt64Nanoseconds(saved.opened.since_zero()));
  out->set_optimistic(saved.admission == cache::Admission::kOptimistic);
  out->set_prefill_ahead_tokens(request.abilities.prefill_ahead.value());
  out->set_parks(request.abilities.parks);
  out->set_streams(request.abilities.streams);
  out->set_swaps(request.abilities.swaps);
  out->set_fruitless_claims(saved.fruitless_claims);
  out->set_furthest_length(saved.furthest.length);
  out->set_furthest_plans(saved.furthest.plans);
  out->set_plans_here(saved.plans_here);
  out->set_pinned(saved.pinned);
  out->set_closing(saved.closing);
  out->set_logical_length(saved.logical_length.value());
  for (const cache::BlockTable& table : saved.layers) {
    v1::ClaimResult::Layer* layer = out->add_layers();
    *layer->mutable_pages() = wire::ToProto(table.pages());
    for (const PositionRange& range : table.positions()) {
      layer->add_runs(range.begin.value());
      layer->add_runs(range.end.value());
    }
  }
  out->set_compacted(saved.compacted);
  out->set_compacted_before(saved.compacted_before);
  out->set_evicted_pages(saved.evicted_pages);
  out->set_parked(saved.parked);
  out->set_swap(static_cast<uint32_t>(saved.swap));
  for (const SwapSlot slot : saved.slots) out->add_slots(slot.value());
  out->set_last_plan(saved.last_plan.value());
  if (saved.plan.has_value()) *out->mutable_plan() = wire::ToProto(*saved.plan);
  out->set_may_have_moved(saved.may_have_moved);
  for (const uint64_t held : saved.shrinking.held()) out->add_shrinking_held(held);
  out->set_shrinking_begun(saved.shrinking.begun());
  out->set_shrinking_plans(saved.shrinking.plans());
}

absl::StatusOr<SavedSequence> FromMessage(const state::JournalSequence& message,
                                          const CacheGeometry& geometry) {
  SavedSequence saved;
  saved.id = SequenceId(message.id());
  saved.windows = geometry.windows;
  absl::Status status = ReadRequest(message, geometry, &saved);
  if (status.ok()) status = ReadContents(message, geometry, &saved);
  if (!status.ok()) return status;
  saved.admission =
      message.optimistic() ? cache::Admission::kOptimistic : cache::Admission::kReserve;
  saved.opened = SteadyTime(absl::Nanoseconds(message.opened_ns()));
  saved.lease_epoch = LeaseEpoch(message.lease_epoch());
  saved.fruitless_claims = message.fruitless_claims();
  saved.furthest = {message.furthest_length(), message.furthest_plans()};
  saved.pinned = message.pinned();
  saved.closing = message.closing();
  saved.logical_length = TokenCount(message.logical_length());
  saved.plans_here = message.plans_here();
  saved.compacted = message.compacted();
  saved.compacted_before = message.compacted_before();
  saved.evicted_pages = message.evicted_pages();
  saved.parked = message.parked();
  saved.last_plan = PlanEpoch(message.last_plan());
  saved.may_have_moved = message.may_have_moved();
  return saved;
}

void ToMessage(const cache::SavedChange& change, state::JournalChange* out) {
  out->set_sequence(change.sequence.value());
  out->set_drop_done(change.drop_done);
  for (const PageList& pages : change.granted) *out->add_granted() = wire::ToProto(pages);
  out->set_logical_length(change.logical_length.value());
  for (const TokenId token : change.sampled) out->add_sampled(token.value());
  if (change.plan.has_value()) *out->mutable_plan() = wire::ToProto(*change.plan);
  if (change.compacts.has_value()) out->set_compacts(change.compacts->value());
}

absl::StatusOr<cache::SavedChange> FromMessage(const state::JournalChange& message,
                                               const CacheGeometry& geometry) {
  cache::SavedChange change;
  change.sequence = SequenceId(message.sequence());
  change.drop_done = message.drop_done();
  for (const v1::LayerPages& layer : message.granted()) {
    if (wire::ReadPages(layer, &change.granted.emplace_back())) continue;
    return absl::InternalError(absl::StrCat("sequence ", message.sequence(), ": malformed pages"));
  }
  change.logical_length = TokenCount(message.logical_length());
  for (const uint32_t token : message.sampled()) change.sampled.emplace_back(token);
  if (message.has_plan()) change.plan = wire::FromProto(message.plan(), geometry.num_layers);
  if (message.has_compacts()) change.compacts = PlanEpoch(message.compacts());
  return change;
}

void ToMessage(const cache::SavedQuarantine& quarantine, state::JournalQuarantine* out) {
  out->set_owner(quarantine.owner.value());
  *out->mutable_pages() = wire::ToProto(quarantine.pages);
  for (const SwapSlot slot : quarantine.slots) out->add_slots(slot.value());
}

absl::StatusOr<cache::SavedQuarantine> FromMessage(const state::JournalQuarantine& message) {
  cache::SavedQuarantine quarantine;
  quarantine.owner = WorkerId(message.owner());
  if (!wire::ReadPages(message.pages(), &quarantine.pages)) {
    return absl::InternalError("malformed pages in quarantine");
  }
  for (const uint32_t slot : message.slots()) quarantine.slots.emplace_back(slot);
  return quarantine;
}

}  // namespace folio::manager
