// The part of admin_service.h that lists tenants and pages.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "services/cache/inspector.h"
#include "services/cache/page_census.h"
#include "services/grpc/grpc_status.h"
#include "services/manager/admin_messages.h"
#include "services/manager/admin_service.h"

namespace folio::manager {
namespace {

// A response has so many runs at most, which are about 50 KB.
constexpr int kRunsAtATime = 4096;

v1::PageState StateToProto(cache::PageState state) {
  switch (state) {
    case cache::PageState::kFree:
      return v1::PAGE_STATE_FREE;
    case cache::PageState::kHeld:
      return v1::PAGE_STATE_HELD;
    case cache::PageState::kQuarantined:
      return v1::PAGE_STATE_QUARANTINED;
  }
  return v1::PAGE_STATE_UNSPECIFIED;
}

v1::PageRun RunOf(const cache::PageFacts& page) {
  v1::PageRun run;
  run.set_pages(1);
  run.set_state(StateToProto(page.state));
  if (page.state == cache::PageState::kHeld) run.set_sequence_id(page.sequence.value());
  return run;
}

bool Continues(const v1::PageRun& run, const v1::PageRun& next) {
  return run.state() == next.state() && run.sequence_id() == next.sequence_id() &&
         run.has_layer() == next.has_layer() && run.layer() == next.layer() && !run.has_score() &&
         !next.has_score();
}

// False if the caller has left.
bool WritePages(const grpc::ServerContext& context, const v1::ListPagesRequest& request,
                const std::string& name, const Pool& pool,
                grpc::ServerWriter<v1::ListPagesResponse>* writer) {
  const cache::PageCensus census(pool.coordinator());
  const std::vector<cache::PageFacts> pages = census.Count();
  v1::ListPagesResponse response;
  response.set_pool(name);
  for (size_t i = 0; i < pages.size(); ++i) {
    v1::PageRun next = RunOf(pages[i]);
    const bool owned = pages[i].state == cache::PageState::kHeld && next.sequence_id() != 0;
    if (owned && request.layers()) next.set_layer(pages[i].layer);
    if (owned && request.scores() && pages[i].scored) {
      next.set_score(census.MeanScore(PageId(static_cast<uint32_t>(i))));
    }
    if (response.runs_size() > 0 && Continues(response.runs(response.runs_size() - 1), next)) {
      v1::PageRun& run = *response.mutable_runs(response.runs_size() - 1);
      run.set_pages(run.pages() + 1);
      continue;
    }
    if (response.runs_size() == kRunsAtATime) {
      if (context.IsCancelled() || !writer->Write(response)) return false;
      response.clear_runs();
    }
    *response.add_runs() = std::move(next);
  }
  return writer->Write(response);
}

}  // namespace

grpc::Status AdminService::Answer(const v1::ListTenantsRequest& request,
                                  v1::ListTenantsResponse* response) {
  const cache::QuotasByTenant quotas = quotas_->all();
  const auto named = pools_->Named(request.pool());
  if (!named.ok()) return ToGrpcStatus(named.status());
  bool any = false;
  for (const ServedPool* served : *named) {
    const std::shared_ptr<const Pool> pool = served->registry().pool();
    if (pool == nullptr) continue;
    any = true;
    const cache::Inspector inspector(pool->coordinator());
    v1::ListTenantsResponse tenants =
        TenantsToProto(inspector.sequences(), inspector.WaitingTenants(), quotas, pool->geometry());
    for (v1::Tenant& tenant : *tenants.mutable_tenants()) tenant.set_pool(served->name());
    response->MergeFrom(tenants);
  }
  if (!any) *response = TenantsToProto({}, {}, quotas, {});
  std::stable_sort(response->mutable_tenants()->begin(), response->mutable_tenants()->end(),
                   [](const auto& a, const auto& b) { return a.tenant() < b.tenant(); });
  return grpc::Status::OK;
}

grpc::Status AdminService::Write(const grpc::ServerContext& context,
                                 const v1::ListPagesRequest& request,
                                 grpc::ServerWriter<v1::ListPagesResponse>* writer) {
  if (listing_pages_.test_and_set()) {
    return ToGrpcStatus(absl::ResourceExhaustedError(
        "another ListPages runs, and the manager answers one at a time; ask again"));
  }
  const absl::Cleanup done = [this] { listing_pages_.clear(); };
  const auto named = pools_->Named(request.pool());
  if (!named.ok()) return ToGrpcStatus(named.status());
  for (const ServedPool* served : *named) {
    const std::shared_ptr<const Pool> pool = served->registry().pool();
    if (pool == nullptr) continue;
    if (!WritePages(context, request, served->name(), *pool, writer))
      return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

}  // namespace folio::manager
