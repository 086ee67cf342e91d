#include "services/manager/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"
#include "services/grpc/grpc_status.h"
#include "services/manager/admin_messages.h"
#include "services/manager/cache_options.h"
#include "services/manager/event_messages.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"
#include "services/runtime/version.h"

namespace folio::manager {
namespace {

// A watch that waits for events looks so often whether its client is still there.
constexpr absl::Duration kLookForClients = absl::Milliseconds(250);

// Those that have a lease.
void WriteWorkers(const WorkerRegistry& registry, const cache::PoolInfo& info, v1::Pool* out) {
  std::map<WorkerId, pid_t> processes;
  for (const WorkerReport& worker : registry.Workers()) {
    processes[worker.id] = worker.ranks[0].pid;
  }
  for (const cache::WorkerInfo& worker : info.workers) {
    v1::AttachedWorker* attached = out->add_workers();
    attached->set_worker_id(WorkerName(worker.id));
    attached->set_name(worker.name);
    attached->set_pid(processes[worker.id]);
    attached->set_sequences(worker.sequences);
    const int64_t left = absl::ToInt64Milliseconds(worker.lease_remaining);
    attached->set_lease_remaining_ms(static_cast<uint32_t>(std::max<int64_t>(left, 0)));
    if (!worker.progress.has_value()) continue;
    attached->set_steps_done(worker.progress->steps_done);
    attached->set_step_in_flight_ms(worker.progress->in_flight_ms);
  }
}

void WritePool(const Pool& pool, const cache::PoolInfo& info, v1::Pool* out) {
  *out->mutable_layout() = pool.layout();
  out->set_pool_bytes(pool.memory().pool_bytes());
  out->set_page_bytes(pool.page_bytes());
  out->set_total_pages(info.total.value());
  out->set_free_pages(info.free.value());
  out->set_held_pages(info.held.value());
  out->set_quarantined_pages(info.quarantined.value());
  out->set_reserved_pages(info.reserved.value());
  out->set_huge_pages(pool.memory().huge_pages() != HugePages::kNone);
  out->set_sequences(info.sequences);
  out->set_orphans(info.orphans());
  out->set_total_swap_slots(info.swap_slots);
  out->set_used_swap_slots(info.swap_slots - info.free_swap_slots);
  for (uint32_t rank = 0; rank < pool.memory().ranks(); ++rank) {
    const PagePlace& place = pool.memory().place(Rank(rank));
    v1::RankMemory* memory = out->add_rank_memory();
    memory->set_device(place.device);
    memory->set_bytes(place.bytes);
  }
}

}  // namespace

grpc::Status AdminService::Noted(const google::protobuf::Message& request,
                                 const grpc::ServerContext& context, const access::Caller& caller,
                                 grpc::Status status) {
  log::Debug("admin call ended", {{"request", request.GetDescriptor()->name()},
                                  {"peer", context.peer()},
                                  {"caller", caller.name},
                                  {"result", FromGrpcStatus(status)}});
  return status;
}

grpc::Status AdminService::Answer(const v1::ListPoolsRequest& request,
                                  v1::ListPoolsResponse* response) {
  for (const DeviceState& device : pools_->pages().Devices()) {
    *response->add_devices() = DeviceToProto(device);
  }
  const auto named = pools_->Named(request.pool());
  if (!named.ok()) return ToGrpcStatus(named.status());
  for (const ServedPool* served : *named) {
    const std::shared_ptr<const Pool> pool = served->registry().pool();
    if (pool == nullptr) continue;
    const cache::PoolInfo info = cache::Inspector(pool->coordinator()).pool();
    v1::Pool* out = response->add_pools();
    out->set_pool_id(served->number());
    out->set_name(served->name());
    WritePool(*pool, info, out);
    WriteWorkers(served->registry(), info, out);
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::Answer(const v1::ListSequencesRequest& request,
                                  v1::ListSequencesResponse* response) {
  const auto named = pools_->Named(request.pool());
  if (!named.ok()) return ToGrpcStatus(named.status());
  for (const ServedPool* served : *named) {
    const std::shared_ptr<const Pool> pool = served->registry().pool();
    if (pool == nullptr) continue;
    for (const auto& info : cache::Inspector(pool->coordinator()).sequences()) {
      v1::Sequence* out = response->add_sequences();
      *out = SequenceToProto(info, pool->geometry());
      out->set_pool(served->name());
    }
  }
  std::sort(response->mutable_sequences()->begin(), response->mutable_sequences()->end(),
            [](const auto& a, const auto& b) { return a.sequence_id() < b.sequence_id(); });
  return grpc::Status::OK;
}

grpc::Status AdminService::Answer(const v1::GetSequenceRequest& request,
                                  v1::GetSequenceResponse* response) {
  const SequenceId id(request.sequence_id());
  const auto found = pools_->OfSequence(id, [&](const ServedPool& served, const Pool& pool) {
    auto detail = cache::Inspector(pool.coordinator()).sequence(id);
    if (!detail.ok()) return detail;
    *response = DetailToProto(*detail, pool.geometry());
    response->mutable_sequence()->set_pool(served.name());
    return detail;
  });
  return ToGrpcStatus(found.status());
}

absl::StatusOr<cache::Explanation> AdminService::Explain(const v1::ExplainEvictionRequest& request,
                                                         const Pool& pool) const {
  const cache::Inspector inspector(pool.coordinator());
  const SequenceId id(request.sequence_id());
  if (!request.has_cache()) return inspector.Explain(id, std::nullopt);
  auto detail = inspector.sequence(id);
  if (!detail.ok()) return detail.status();
  const CacheRules rules = {pool.geometry().page_tokens, pool.geometry().num_layers,
                            settings_.budgets};
  const RequestShape shape = {detail->info.prompt_tokens.value(),
                              detail->info.max_new_tokens.value(), 0};
  auto config = CacheConfigFromProto(request.cache(), rules, shape);
  if (!config.ok()) return config.status();
  return inspector.Explain(id, *std::move(config));
}

grpc::Status AdminService::Answer(const v1::ExplainEvictionRequest& request,
                                  v1::ExplainEvictionResponse* response) {
  // A second call does not wait, because it would keep a thread that a worker's session may need.
  if (explaining_.test_and_set()) {
    return ToGrpcStatus(absl::ResourceExhaustedError(
        "another ExplainEviction runs, and the manager answers one at a time; ask again"));
  }
  const absl::Cleanup done = [this] { explaining_.clear(); };
  auto explanation = pools_->OfSequence(
      SequenceId(request.sequence_id()),
      [&](const ServedPool&, const Pool& pool) { return Explain(request, pool); });
  if (!explanation.ok()) return ToGrpcStatus(explanation.status());
  *response = ExplanationToProto(*explanation);
  return grpc::Status::OK;
}

grpc::Status AdminService::Answer(const v1::GetManagerRequest& request,
                                  v1::GetManagerResponse* response) {
  const auto up = std::chrono::steady_clock::now() - started_;
  response->set_build(BuildDescription());
  response->set_pid(static_cast<uint32_t>(getpid()));
  response->set_uptime_ms(std::chrono::duration_cast<std::chrono::milliseconds>(up).count());
  response->set_draining(pools_->drains().ordered());
  response->set_steering(enabled());
  response->set_boot_id(settings_.boot_id);
  return grpc::Status::OK;
}

grpc::Status AdminService::Answer(const v1::ListWorkersRequest& request,
                                  v1::ListWorkersResponse* response) {
  const auto milliseconds = [](absl::Duration time) {
    return static_cast<uint32_t>(
        std::clamp<int64_t>(absl::ToInt64Milliseconds(time), 0, UINT32_MAX));
  };
  response->set_lease_ttl_ms(milliseconds(settings_.lease_ttl));
  response->set_kill_fenced_after_ms(milliseconds(settings_.kill_fenced_after));
  const auto named = pools_->Named(request.pool());
  if (!named.ok()) return ToGrpcStatus(named.status());
  std::map<WorkerId, v1::Worker> workers;
  for (const ServedPool* served : *named) {
    const std::shared_ptr<const Pool> pool = served->registry().pool();
    if (pool == nullptr) continue;
    const cache::Inspector inspector(pool->coordinator());
    const std::vector<cache::WorkerInfo> leases = inspector.pool().workers;
    const std::vector<cache::SequenceInfo> sequences = inspector.sequences();
    for (const WorkerReport& report : served->registry().Workers()) {
      const auto lease = std::find_if(leases.begin(), leases.end(),
                                      [&](const auto& one) { return one.id == report.id; });
      const bool live = !report.fenced && lease != leases.end();
      v1::Worker& worker = workers[report.id];
      worker = WorkerToProto(report, live ? &*lease : nullptr, sequences);
      worker.set_pool(served->name());
    }
  }
  for (auto& [id, worker] : workers) *response->add_workers() = std::move(worker);
  return grpc::Status::OK;
}

grpc::Status AdminService::Follow(grpc::ServerContext* context,
                                  const v1::WatchEventsRequest& request,
                                  grpc::ServerWriter<v1::WatchEventsResponse>* writer) {
  const auto kinds = EventKindsFromProto(request);
  if (!kinds.ok()) return ToGrpcStatus(kinds.status());
  const auto watch = event_log_->Watch(*kinds, request.after());
  if (!watch.ok()) return ToGrpcStatus(watch.status());
  // Events that come meanwhile must not make a stream endless that does not follow.
  const uint64_t end = request.follow() ? UINT64_MAX : event_log_->newest();
  while (!context->IsCancelled()) {
    const absl::Duration wait = request.follow() ? kLookForClients : absl::ZeroDuration();
    const EventBatch batch = (*watch)->Next(SteadyNow() + wait);
    v1::WatchEventsResponse response;
    response.set_boot_id(settings_.boot_id);
    if (batch.lost > 0) {
      response.mutable_lost()->set_events(batch.lost);
      if (!writer->Write(response)) break;
    }
    for (const auto& event : batch.events) {
      if (event->number > end) return grpc::Status::OK;
      response.clear_content();
      WriteEvent(*event, response.mutable_event());
      if (!writer->Write(response)) return grpc::Status::CANCELLED;
    }
    if (batch.last || (!request.follow() && batch.events.empty())) return grpc::Status::OK;
  }
  return grpc::Status::CANCELLED;
}

}  // namespace folio::manager
