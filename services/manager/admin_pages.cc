// The part of admin_service.h that lists tenants and pages.
#include <cmath>
#include <memory>
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

}  // namespace

grpc::Status AdminService::Answer(const v1::ListTenantsRequest& request,
                                  v1::ListTenantsResponse* response) {
  const std::shared_ptr<const Pool> pool = registry_->pool();
  const cache::QuotasByTenant quotas = quotas_->all();
  if (pool == nullptr) {
    *response = TenantsToProto({}, {}, quotas, {});
    return grpc::Status::OK;
  }
  const cache::Inspector inspector(pool->coordinator());
  *response =
      TenantsToProto(inspector.sequences(), inspector.WaitingTenants(), quotas, pool->geometry());
  return grpc::Status::OK;
}

grpc::Status AdminService::Write(const grpc::ServerContext& context,
                                 const v1::ListPagesRequest& request,
                                 grpc::ServerWriter<v1::ListPagesResponse>* writer) {
  const std::shared_ptr<const Pool> pool = registry_->pool();
  if (pool == nullptr) return grpc::Status::OK;
  if (listing_pages_.test_and_set()) {
    return ToGrpcStatus(absl::ResourceExhaustedError(
        "another ListPages runs, and the manager answers one at a time; ask again"));
  }
  const absl::Cleanup done = [this] { listing_pages_.clear(); };
  const cache::PageCensus census(pool->coordinator());
  const std::vector<cache::PageFacts> pages = census.Count();
  v1::ListPagesResponse response;
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
      if (context.IsCancelled() || !writer->Write(response)) return grpc::Status::CANCELLED;
      response.clear_runs();
    }
    *response.add_runs() = std::move(next);
  }
  return writer->Write(response) ? grpc::Status::OK : grpc::Status::CANCELLED;
}

}  // namespace folio::manager
