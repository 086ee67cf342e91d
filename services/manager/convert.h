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
#include "services/policy/registry.h"

namespace folio::manager {

// Defaults: no policy is `full`; sink and recent one page each; pipelined. With `full`, sink and
// recent are 0, and anything else is refused.
absl::StatusOr<policy::CacheConfig> CacheConfigFromProto(const v1::CacheOptions& options,
                                                         uint32_t page_tokens);
v1::CacheOptions CacheConfigToProto(const policy::CacheConfig& config);

// `seed` may be missing only when nothing is sampled (temperature 0).
absl::StatusOr<cache::SamplingRecord> SamplingFromProto(const v1::SamplingParams& sampling);

absl::StatusOr<cache::OpenRequest> OpenFromProto(const v1::OpenSequence& open, WorkerId worker,
                                                 uint32_t page_tokens);
cache::CommitRequest CommitFromProto(const v1::CommitTokens& commit, WorkerId worker);

v1::OpenResult OpenedToProto(const cache::Opened& opened);
v1::PageGrant GrantToProto(SequenceId sequence, const cache::LayerPageLists& pages);
v1::EvictionPlan PlanToProto(const cache::Plan& plan);

// The geometry of a layout; INVALID_ARGUMENT for one that no pool can have.
absl::StatusOr<CacheGeometry> GeometryFromProto(const v1::ModelLayout& layout);
// Every field that differs, each with both values: "head_dim: the pool has 64, the worker 128".
// OK when all are equal.
absl::Status CompareLayouts(const v1::ModelLayout& pool, const v1::ModelLayout& worker);

v1::Sequence SequenceToProto(const cache::SequenceInfo& info, const CacheGeometry& geometry);
v1::GetSequenceResponse DetailToProto(const cache::SequenceDetail& detail,
                                      const CacheGeometry& geometry);

// "w1".
std::string WorkerName(WorkerId worker);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_CONVERT_H_
