// The half of session.h about replies, which the manager sends.
#include <utility>

#include "services/base/check.h"
#include "services/wire/sampling.h"
#include "services/wire/sequence.h"
#include "services/wire/session.h"

namespace folio::wire {
namespace {

using Layers = google::protobuf::RepeatedPtrField<v1::LayerPages>;

// OpenResult, ClaimResult, UnparkResult and SequenceError carry a status in the same two fields.
template <typename Message>
void WriteStatus(const absl::Status& status, Message* out) {
  out->set_code(static_cast<int>(status.code()));
  out->set_message(std::string(status.message()));
}
template <typename Message>
absl::Status ReadStatus(const Message& message) {
  return {static_cast<absl::StatusCode>(message.code()), message.message()};
}

void Write(const OpenResult& opened, v1::OpenResult* out) {
  out->set_request_tag(opened.request_tag);
  out->set_may_fit_later(opened.may_fit_later);
  if (!opened.status.ok()) return WriteStatus(opened.status, out);
  out->set_sequence_id(opened.sequence.value());
  out->set_lease_epoch(opened.lease_epoch.value());
  *out->mutable_cache() = ToProto(opened.cache);
  for (const PageList& pages : opened.pages) *out->add_layers() = ToProto(pages);
  *out->mutable_scores() = ToProto(opened.scores);
  *out->mutable_prompt_scores() = ToProto(opened.prompt_scores);
  *out->mutable_scored_layers() = ToProto(opened.scored_layers);
}

void Write(const ClaimedLayer& layer, v1::ClaimResult::Layer* out) {
  *out->mutable_pages() = ToProto(layer.pages);
  for (const PositionRange& range : layer.positions) {
    out->add_runs(range.begin.value());
    out->add_runs(range.end.value());
  }
  for (const SwapSlot slot : layer.slots) out->add_swap_slots(slot.value());
}

void Write(const ClaimResult& claimed, v1::ClaimResult* out) {
  out->set_request_tag(claimed.request_tag);
  out->set_may_fit_later(claimed.may_fit_later);
  if (!claimed.status.ok()) return WriteStatus(claimed.status, out);
  out->set_sequence_id(claimed.sequence.value());
  out->set_lease_epoch(claimed.lease_epoch.value());
  *out->mutable_cache() = ToProto(claimed.cache);
  *out->mutable_sampling() = ToProto(ParametersOf(claimed.sampling));
  FOLIO_CHECK(out->mutable_output()->ParseFromString(claimed.output));
  out->set_label(claimed.label);
  out->set_tenant(claimed.tenant);
  out->set_priority(claimed.priority);
  out->set_max_new_tokens(claimed.max_new_tokens.value());
  out->set_prompt_tokens(claimed.prompt_tokens.value());
  out->mutable_tokens()->Reserve(static_cast<int>(claimed.tokens.size()));
  for (const TokenId token : claimed.tokens) out->add_tokens(token.value());
  out->set_logical_length(claimed.logical_length.value());
  for (const ClaimedLayer& layer : claimed.layers) Write(layer, out->add_layers());
  out->set_evicted_pages(claimed.evicted_pages.value());
  *out->mutable_scores() = ToProto(claimed.scores);
  *out->mutable_prompt_scores() = ToProto(claimed.prompt_scores);
  *out->mutable_scored_layers() = ToProto(claimed.scored_layers);
  if (claimed.plan.has_value()) *out->mutable_plan() = ToProto(*claimed.plan);
}

// Empty if the number of layers or any of the lists is malformed: an empty list for one layer
// alone would look like a layer that gets no pages.
LayerPageLists ReadLayers(const Layers& layers, uint32_t num_layers) {
  if (static_cast<uint32_t>(layers.size()) != num_layers) return {};
  LayerPageLists out(num_layers);
  for (uint32_t i = 0; i < num_layers; ++i) {
    if (!ReadPages(layers[static_cast<int>(i)], &out[i])) return {};
  }
  return out;
}

std::vector<ClaimedLayer> ReadLayers(
    const google::protobuf::RepeatedPtrField<v1::ClaimResult::Layer>& layers, uint32_t num_layers) {
  if (static_cast<uint32_t>(layers.size()) != num_layers) return {};
  std::vector<ClaimedLayer> out(num_layers);
  for (uint32_t i = 0; i < num_layers; ++i) {
    const v1::ClaimResult::Layer& layer = layers[static_cast<int>(i)];
    if (!ReadPages(layer.pages(), &out[i].pages) || layer.runs_size() % 2 != 0) return {};
    for (int at = 0; at < layer.runs_size(); at += 2) {
      out[i].positions.push_back({Position(layer.runs(at)), Position(layer.runs(at + 1))});
    }
    for (const uint32_t slot : layer.swap_slots()) out[i].slots.emplace_back(slot);
  }
  return out;
}

OpenResult Read(const v1::OpenResult& result, uint32_t num_layers) {
  OpenResult out;
  out.request_tag = result.request_tag();
  out.status = ReadStatus(result);
  out.may_fit_later = result.may_fit_later();
  if (!out.status.ok()) return out;
  out.sequence = SequenceId(result.sequence_id());
  out.lease_epoch = LeaseEpoch(result.lease_epoch());
  out.cache = FromProto(result.cache());
  out.pages = ReadLayers(result.layers(), num_layers);
  out.scores = FromProto(result.scores());
  out.prompt_scores = FromProto(result.prompt_scores());
  if (result.has_scored_layers()) out.scored_layers = FromProto(result.scored_layers());
  return out;
}

ClaimResult Read(const v1::ClaimResult& result, uint32_t num_layers) {
  ClaimResult out;
  out.request_tag = result.request_tag();
  out.status = ReadStatus(result);
  out.may_fit_later = result.may_fit_later();
  if (!out.status.ok()) return out;
  out.sequence = SequenceId(result.sequence_id());
  out.lease_epoch = LeaseEpoch(result.lease_epoch());
  out.cache = FromProto(result.cache());
  out.sampling = RecordOf(FromProto(result.sampling()));
  out.output = result.output().SerializeAsString();
  out.label = result.label();
  out.tenant = result.tenant();
  out.priority = result.priority();
  out.max_new_tokens = TokenCount(result.max_new_tokens());
  out.prompt_tokens = TokenCount(result.prompt_tokens());
  out.tokens.reserve(result.tokens_size());
  for (const uint32_t token : result.tokens()) out.tokens.emplace_back(token);
  out.logical_length = TokenCount(result.logical_length());
  out.layers = ReadLayers(result.layers(), num_layers);
  out.evicted_pages = PageCount(result.evicted_pages());
  out.scores = FromProto(result.scores());
  out.prompt_scores = FromProto(result.prompt_scores());
  if (result.has_scored_layers()) out.scored_layers = FromProto(result.scored_layers());
  if (result.has_plan()) out.plan = FromProto(result.plan(), num_layers);
  return out;
}

void Write(const UnparkResult& unparked, v1::UnparkResult* out) {
  out->set_sequence_id(unparked.sequence.value());
  out->set_may_fit_later(unparked.may_fit_later);
  if (!unparked.status.ok()) return WriteStatus(unparked.status, out);
  for (const PageList& pages : unparked.pages) *out->add_layers() = ToProto(pages);
  for (const ClaimedLayer& layer : unparked.swapped) Write(layer, out->add_swapped());
  out->set_logical_length(unparked.logical_length.value());
}

UnparkResult Read(const v1::UnparkResult& result, uint32_t num_layers) {
  UnparkResult out;
  out.sequence = SequenceId(result.sequence_id());
  out.status = ReadStatus(result);
  out.may_fit_later = result.may_fit_later();
  if (!out.status.ok()) return out;
  out.pages = ReadLayers(result.layers(), num_layers);
  out.swapped = ReadLayers(result.swapped(), num_layers);
  out.logical_length = TokenCount(result.logical_length());
  return out;
}

}  // namespace

v1::SessionReply ToProto(const SessionReply& reply) {
  v1::SessionReply out;
  out.set_step(reply.step);
  for (const OpenResult& opened : reply.opened) Write(opened, out.add_opened());
  for (const ClaimResult& claimed : reply.claimed) Write(claimed, out.add_claimed());
  for (const PageGrant& grant : reply.granted) {
    v1::PageGrant* granted = out.add_granted();
    granted->set_sequence_id(grant.sequence.value());
    for (const PageList& pages : grant.pages) *granted->add_layers() = ToProto(pages);
  }
  for (const Plan& plan : reply.plans) *out.add_plans() = ToProto(plan);
  for (const SequenceError& error : reply.failed) {
    v1::SequenceError* failed = out.add_failed();
    failed->set_sequence_id(error.sequence.value());
    WriteStatus(error.status, failed);
  }
  for (const UnparkResult& unparked : reply.unparked) Write(unparked, out.add_unparked());
  for (const SequenceId id : reply.park) out.add_park(id.value());
  for (const SwapOffer& offer : reply.swap) {
    v1::SwapOffer* swap = out.add_swap();
    swap->set_sequence_id(offer.sequence.value());
    for (const SwapSlot slot : offer.slots) swap->add_slots(slot.value());
  }
  out.set_clear_pages(reply.clear_pages);
  return out;
}

SessionReply FromProto(const v1::SessionReply& reply, uint32_t num_layers) {
  SessionReply out;
  out.step = reply.step();
  for (const v1::OpenResult& result : reply.opened()) {
    out.opened.push_back(Read(result, num_layers));
  }
  for (const v1::ClaimResult& result : reply.claimed()) {
    out.claimed.push_back(Read(result, num_layers));
  }
  for (const v1::PageGrant& grant : reply.granted()) {
    out.granted.push_back(
        {SequenceId(grant.sequence_id()), ReadLayers(grant.layers(), num_layers)});
  }
  for (const v1::EvictionPlan& plan : reply.plans()) {
    out.plans.push_back(FromProto(plan, num_layers));
  }
  for (const v1::SequenceError& error : reply.failed()) {
    out.failed.push_back({SequenceId(error.sequence_id()), ReadStatus(error)});
  }
  for (const v1::UnparkResult& result : reply.unparked()) {
    out.unparked.push_back(Read(result, num_layers));
  }
  for (const uint64_t id : reply.park()) out.park.emplace_back(id);
  for (const v1::SwapOffer& from : reply.swap()) {
    SwapOffer& offer = out.swap.emplace_back();
    offer.sequence = SequenceId(from.sequence_id());
    for (const uint32_t slot : from.slots()) offer.slots.emplace_back(slot);
  }
  out.clear_pages = reply.clear_pages();
  return out;
}

}  // namespace folio::wire
