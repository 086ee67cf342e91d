#include "services/manager/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"
#include "services/grpc/grpc_status.h"
#include "services/manager/admin_messages.h"
#include "services/manager/cache_options.h"
#include "services/manager/worker_name.h"
#include "services/runtime/version.h"

namespace folio::manager {
namespace {

// Ids count from 1; a manager has one pool.
constexpr uint32_t kPoolId = 1;

grpc::Status NotAttached(uint64_t sequence) {
  return ToGrpcStatus(absl::NotFoundError(
      absl::StrCat("sequence ", sequence, " is not open: no worker has attached")));
}

}  // namespace

grpc::Status AdminService::ListPools(grpc::ServerContext* context,
                                     const v1::ListPoolsRequest* request,
                                     v1::ListPoolsResponse* response) {
  for (const DeviceState& device : registry_->pages().Devices()) {
    *response->add_devices() = DeviceToProto(device);
  }
  const Pool* pool = registry_->pool();
  if (pool == nullptr) return grpc::Status::OK;
  const cache::PoolInfo info = cache::Inspector(pool->coordinator()).pool();
  v1::Pool* out = response->add_pools();
  out->set_pool_id(kPoolId);
  *out->mutable_layout() = pool->layout();
  out->set_pool_bytes(pool->memory().pool_bytes());
  out->set_page_bytes(pool->page_bytes());
  out->set_total_pages(info.total.value());
  out->set_free_pages(info.free.value());
  out->set_held_pages(info.held.value());
  out->set_quarantined_pages(info.quarantined.value());
  out->set_reserved_pages(info.reserved.value());
  out->set_huge_pages(pool->memory().huge_pages() != HugePages::kNone);
  out->set_sequences(info.sequences);
  out->set_orphans(info.orphans());
  for (uint32_t rank = 0; rank < pool->ranks(); ++rank) {
    const PagePlace& place = pool->memory().place(Rank(rank));
    v1::RankMemory* memory = out->add_rank_memory();
    memory->set_device(place.device);
    memory->set_bytes(place.bytes);
  }
  for (const cache::WorkerInfo& worker : info.workers) {
    v1::AttachedWorker* attached = out->add_workers();
    attached->set_worker_id(WorkerName(worker.id));
    attached->set_name(worker.name);
    attached->set_pid(registry_->ProcessOf(worker.id));
    attached->set_sequences(worker.sequences);
    const int64_t left = absl::ToInt64Milliseconds(worker.lease_remaining);
    attached->set_lease_remaining_ms(static_cast<uint32_t>(std::max<int64_t>(left, 0)));
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListSequences(grpc::ServerContext* context,
                                         const v1::ListSequencesRequest* request,
                                         v1::ListSequencesResponse* response) {
  const Pool* pool = registry_->pool();
  if (pool == nullptr) return grpc::Status::OK;
  std::vector<cache::SequenceInfo> sequences = cache::Inspector(pool->coordinator()).sequences();
  std::sort(sequences.begin(), sequences.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const cache::SequenceInfo& info : sequences) {
    *response->add_sequences() = SequenceToProto(info, pool->geometry());
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::GetSequence(grpc::ServerContext* context,
                                       const v1::GetSequenceRequest* request,
                                       v1::GetSequenceResponse* response) {
  const Pool* pool = registry_->pool();
  if (pool == nullptr) return NotAttached(request->sequence_id());
  auto detail = cache::Inspector(pool->coordinator()).sequence(SequenceId(request->sequence_id()));
  if (!detail.ok()) return ToGrpcStatus(detail.status());
  *response = DetailToProto(*detail, pool->geometry());
  return grpc::Status::OK;
}

grpc::Status AdminService::ExplainEviction(grpc::ServerContext* context,
                                           const v1::ExplainEvictionRequest* request,
                                           v1::ExplainEvictionResponse* response) {
  const Pool* pool = registry_->pool();
  if (pool == nullptr) return NotAttached(request->sequence_id());
  const SequenceId id(request->sequence_id());
  std::optional<policy::CacheConfig> cache;
  if (request->has_cache()) {
    auto detail = cache::Inspector(pool->coordinator()).sequence(id);
    if (!detail.ok()) return ToGrpcStatus(detail.status());
    const CacheRules rules = {pool->geometry().page_tokens, pool->geometry().num_layers, budgets_};
    const RequestShape shape = {detail->info.prompt_tokens.value(),
                                detail->info.max_new_tokens.value(), 0};
    auto config = CacheConfigFromProto(request->cache(), rules, shape);
    if (!config.ok()) return ToGrpcStatus(config.status());
    cache = *std::move(config);
  }
  auto explanation = cache::Inspector(pool->coordinator()).Explain(id, cache);
  if (!explanation.ok()) return ToGrpcStatus(explanation.status());
  *response = ExplanationToProto(*explanation);
  return grpc::Status::OK;
}

grpc::Status AdminService::GetManager(grpc::ServerContext* context,
                                      const v1::GetManagerRequest* request,
                                      v1::GetManagerResponse* response) {
  const auto up = std::chrono::steady_clock::now() - started_;
  response->set_build(BuildDescription());
  response->set_pid(static_cast<uint32_t>(getpid()));
  response->set_uptime_ms(std::chrono::duration_cast<std::chrono::milliseconds>(up).count());
  return grpc::Status::OK;
}

}  // namespace folio::manager
