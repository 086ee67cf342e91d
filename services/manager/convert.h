// Protocol messages to the coordinator's types and back. Errors are INVALID_ARGUMENT and name the
// field. Checks only what the coordinator's types cannot hold: values that depend on each other or
// on the pool are the coordinator's business. Pure functions; any thread.
#ifndef FOLIO_SERVICES_MANAGER_CONVERT_H_
#define FOLIO_SERVICES_MANAGER_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/admin.pb.h"
#include "folio/v1/kv_manager.pb.h"
#include "folio/v1/types.pb.h"
#include "services/cache/coordinator.h"
#include "services/common/geometry.h"
#include "services/common/ids.h"
#include "services/manager/page_memory.h"
#include "services/policy/budget.h"
#include "services/policy/registry.h"

namespace folio::manager {

// What the pool and its operator say of every sequence's cache settings.
struct CacheRules {
  uint32_t page_tokens = 16;
  uint32_t num_layers = 1;
  policy::BudgetRules budgets = {};
};

// What of a request its cache settings depend on.
struct RequestShape {
  uint64_t prompt_tokens = 0;
  uint64_t max_new_tokens = 0;
  uint64_t sampling_seed = 0;
};

// Defaults: no policy is `full`; sink and recent one page each; pipelined; snap_kv's window 64
// and pool 7; query_diff's share 0.5, window 16 and pool 31; random's seed the sampling seed;
// kv_crush over paged_eviction, share 0.25, anchor mean; the operator's budget. With `full`, sink
// and recent are 0, and anything else is refused.
absl::StatusOr<policy::CacheConfig> CacheConfigFromProto(const v1::CacheOptions& options,
                                                         const CacheRules& rules,
                                                         const RequestShape& request);
v1::CacheOptions CacheConfigToProto(const policy::CacheConfig& config);
v1::ScoreNeed ScoreNeedToProto(const policy::ScoreNeed& need);

// `seed` may be missing only when nothing is sampled (temperature 0).
absl::StatusOr<cache::SamplingRecord> SamplingFromProto(const v1::SamplingParams& sampling);

absl::StatusOr<cache::OpenRequest> OpenFromProto(const v1::OpenSequence& open, WorkerId worker,
                                                 const CacheRules& rules);
cache::ClaimRequest ClaimFromProto(const v1::ClaimSequence& claim, WorkerId worker);
cache::CommitRequest CommitFromProto(const v1::CommitTokens& commit, WorkerId worker);

v1::LayerPages PagesToProto(const cache::PageList& pages);
v1::OpenResult OpenedToProto(const cache::Opened& opened);
v1::ClaimResult ClaimedToProto(const cache::Claimed& claimed);
v1::PageGrant GrantToProto(SequenceId sequence, const cache::LayerPageLists& pages);
v1::EvictionPlan PlanToProto(const cache::Plan& plan);

// The geometry of a layout; INVALID_ARGUMENT for one that no pool can have.
absl::StatusOr<CacheGeometry> GeometryFromProto(const v1::ModelLayout& layout);
// What each tensor-parallel rank has of it, of a layout whose GeometryFromProto is OK; never empty.
std::vector<CacheGeometry> RankGeometries(const v1::ModelLayout& layout);
// Every field that differs, each with both values: "head_dim: the pool has 64, the worker 128".
// OK when all are equal.
absl::Status CompareLayouts(const v1::ModelLayout& pool, const v1::ModelLayout& worker);

v1::Device DeviceToProto(const DeviceState& state);
v1::Sequence SequenceToProto(const cache::SequenceInfo& info, const CacheGeometry& geometry);
v1::GetSequenceResponse DetailToProto(const cache::SequenceDetail& detail,
                                      const CacheGeometry& geometry);
v1::ExplainEvictionResponse ExplanationToProto(const cache::Explanation& explanation);

// "w1".
std::string WorkerName(WorkerId worker);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_CONVERT_H_
