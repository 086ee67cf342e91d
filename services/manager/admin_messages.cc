#include "services/manager/admin_messages.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "services/manager/cache_options.h"
#include "services/manager/quota_message.h"
#include "services/manager/worker_name.h"

namespace folio::manager {
namespace {

v1::SequenceState StateToProto(cache::SequenceState state) {
  switch (state) {
    case cache::SequenceState::kPrefill:
      return v1::SEQUENCE_STATE_PREFILL;
    case cache::SequenceState::kDecode:
      return v1::SEQUENCE_STATE_DECODE;
    case cache::SequenceState::kEvicting:
      return v1::SEQUENCE_STATE_EVICTING;
    case cache::SequenceState::kOrphaned:
      return v1::SEQUENCE_STATE_ORPHANED;
    case cache::SequenceState::kParked:
      return v1::SEQUENCE_STATE_PARKED;
  }
  return v1::SEQUENCE_STATE_UNSPECIFIED;
}

uint32_t Milliseconds(absl::Duration time) {
  return static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(time), 0, UINT32_MAX));
}

void WriteRanges(const std::vector<PositionRange>& ranges,
                 google::protobuf::RepeatedPtrField<v1::PositionRange>* out) {
  for (const PositionRange& range : ranges) {
    v1::PositionRange* to = out->Add();
    to->set_begin(range.begin.value());
    to->set_end(range.end.value());
  }
}

void WriteFence(const WorkerReport& report, uint32_t orphans, v1::Fence* out) {
  out->set_reason(std::string(report.why_fenced));
  out->set_fenced_ms(Milliseconds(report.fenced_for));
  out->set_silent_ms(Milliseconds(report.silent_for));
  out->set_blocked_pages(report.blocked.value());
  out->set_orphans(orphans);
  if (report.kill_in.has_value()) out->set_kill_in_ms(Milliseconds(*report.kill_in));
  out->set_killed(report.kill_tried && report.kill_error.ok());
  if (!report.kill_error.ok()) out->set_kill_error(std::string(report.kill_error.message()));
}

void WritePlan(const cache::PastPlan& plan, SteadyTime now, v1::PastPlan* out) {
  out->set_plan_epoch(plan.epoch.value());
  out->set_ago_ms(Milliseconds(now - plan.when));
  out->set_logical_length(plan.logical_length.value());
  out->set_compaction(plan.compaction);
  out->set_freed_pages(plan.freed.value());
  for (const cache::LayerLoss& loss : plan.losses) {
    v1::PastPlan::Loss* to = out->add_losses();
    to->set_layer(loss.layer);
    to->set_tokens(loss.tokens.value());
    to->set_begin(loss.begin.value());
    to->set_end(loss.end.value());
  }
}

}  // namespace

v1::Device DeviceToProto(const DeviceState& state) {
  v1::Device out;
  out.set_device(state.device);
  out.set_uuid(state.uuid);
  out.set_name(state.name);
  if (state.total_bytes.has_value()) out.set_total_bytes(*state.total_bytes);
  if (state.free_bytes.has_value()) out.set_free_bytes(*state.free_bytes);
  for (const Rank rank : state.ranks) out.add_ranks(rank.value());
  return out;
}

v1::Worker WorkerToProto(const WorkerReport& report, const cache::WorkerInfo* lease,
                         const std::vector<cache::SequenceInfo>& sequences) {
  v1::Worker out;
  out.set_worker_id(WorkerName(report.id));
  out.set_name(report.name);
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankProcess& from = report.ranks[rank];
    v1::WorkerProcess* process = out.add_processes();
    process->set_rank(static_cast<uint32_t>(rank));
    process->set_pid(from.pid);
    process->set_has_pages(from.fetched && !from.ended);
    process->set_ended(from.ended);
  }
  uint32_t orphans = 0;
  for (const cache::SequenceInfo& sequence : sequences) {
    if (sequence.worker != report.id) continue;
    if (sequence.state == cache::SequenceState::kOrphaned) {
      ++orphans;
      continue;
    }
    out.set_sequences(out.sequences() + 1);
    out.set_held_pages(out.held_pages() + sequence.held_pages.value());
    // It begins with 1, and each claim adds 1.
    if (sequence.lease_epoch > LeaseEpoch(1)) {
      out.set_claimed_sequences(out.claimed_sequences() + 1);
    }
    out.set_highest_lease_epoch(std::max(out.highest_lease_epoch(), sequence.lease_epoch.value()));
  }
  if (lease != nullptr) {
    out.set_lease_remaining_ms(Milliseconds(lease->lease_remaining));
    if (lease->progress.has_value()) {
      out.set_steps_done(lease->progress->steps_done);
      out.set_step_in_flight_ms(lease->progress->in_flight_ms);
    }
  }
  out.set_draining(report.draining);
  if (report.fenced) WriteFence(report, orphans, out.mutable_fence());
  return out;
}

v1::Sequence SequenceToProto(const cache::SequenceInfo& info, const CacheGeometry& geometry) {
  v1::Sequence out;
  out.set_sequence_id(info.id.value());
  out.set_worker_id(WorkerName(info.worker));
  out.set_label(info.label);
  out.set_tenant(info.tenant);
  out.set_state(StateToProto(info.state));
  *out.mutable_cache() = CacheConfigToProto(info.cache);
  out.set_prompt_tokens(info.prompt_tokens.value());
  out.set_max_new_tokens(info.max_new_tokens.value());
  out.set_logical_length(info.logical_length.value());
  out.set_resident_tokens(info.resident.value());
  out.set_held_pages(info.held_pages.value());
  out.set_reserved_pages(info.reserved_pages.value());
  out.set_held_bytes(uint64_t{info.held_pages.value()} * geometry.page_bytes());
  out.set_evicted_tokens(info.evicted_tokens.value());
  out.set_evicted_pages(info.evicted_pages.value());
  out.set_pages_behind_windows(info.pages_behind.value());
  out.set_plan_epoch(info.plan_epoch.value());
  out.set_age_ms(Milliseconds(info.age));
  out.set_orphan_ms(Milliseconds(info.orphan_left));
  out.set_lease_epoch(info.lease_epoch.value());
  out.set_swap_slots(info.swap_slots);
  out.set_priority(info.priority);
  out.set_pinned(info.pinned);
  out.set_closing(info.closing);
  return out;
}

v1::GetSequenceResponse DetailToProto(const cache::SequenceDetail& detail,
                                      const CacheGeometry& geometry) {
  v1::GetSequenceResponse out;
  *out.mutable_sequence() = SequenceToProto(detail.info, geometry);
  for (const cache::LayerTableInfo& table : detail.layers) {
    v1::LayerTable* layer = out.add_layers();
    layer->set_resident_tokens(table.resident.value());
    for (const PageRef& ref : table.pages) {
      v1::PageRef* page = layer->add_pages();
      page->set_page(ref.page.value());
      page->set_generation(ref.generation.value());
    }
    WriteRanges(table.kept, layer->mutable_kept());
  }
  for (const cache::PastPlan& plan : detail.plans) WritePlan(plan, detail.now, out.add_plans());
  return out;
}

v1::ListTenantsResponse TenantsToProto(const std::vector<cache::SequenceInfo>& sequences,
                                       const std::vector<std::string>& waiting,
                                       const cache::QuotasByTenant& quotas,
                                       const CacheGeometry& geometry) {
  std::map<std::string, v1::Tenant> tenants;
  for (const cache::SequenceInfo& info : sequences) {
    v1::Tenant& tenant = tenants[info.tenant];
    tenant.set_sequences(tenant.sequences() + 1);
    if (info.state == cache::SequenceState::kParked) tenant.set_parked(tenant.parked() + 1);
    tenant.set_held_pages(tenant.held_pages() + info.held_pages.value());
    tenant.set_needed_pages(tenant.needed_pages() + info.needed_pages.value());
    tenant.set_held_bytes(tenant.held_bytes() +
                          uint64_t{info.held_pages.value()} * geometry.page_bytes());
  }
  for (const std::string& name : waiting) tenants[name].set_waiting(tenants[name].waiting() + 1);
  for (const auto& [name, quota] : quotas) {
    *tenants[name].mutable_quota() = QuotaToProto(quota);
  }
  v1::ListTenantsResponse out;
  for (auto& [name, tenant] : tenants) {
    tenant.set_tenant(name);
    *out.add_tenants() = std::move(tenant);
  }
  return out;
}

v1::ExplainEvictionResponse ExplanationToProto(const cache::Explanation& explanation) {
  v1::ExplainEvictionResponse out;
  *out.mutable_cache() = CacheConfigToProto(explanation.cache);
  out.set_due(explanation.due);
  for (const cache::ExplainedLayer& from : explanation.layers) {
    v1::ExplainedLayer* layer = out.add_layers();
    layer->set_budget_tokens(from.budget.value());
    layer->set_resident_tokens(from.resident.value());
    WriteRanges(from.drop, layer->mutable_drop_tokens());
    if (from.block.has_value()) layer->set_drop_block(from.block->value());
    layer->mutable_scores()->Add(from.scores.begin(), from.scores.end());
  }
  return out;
}

}  // namespace folio::manager
