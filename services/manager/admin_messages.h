// These functions write what operators see into the messages of the Admin service. They are pure
// and may be called from any thread.
#ifndef FOLIO_SERVICES_MANAGER_ADMIN_MESSAGES_H_
#define FOLIO_SERVICES_MANAGER_ADMIN_MESSAGES_H_

#include <string>
#include <vector>

#include "folio/v1/admin.pb.h"
#include "services/base/geometry.h"
#include "services/cache/inspector.h"
#include "services/cache/tenant_quotas.h"
#include "services/manager/attached_worker.h"
#include "services/manager/memory/page_memory.h"

namespace folio::manager {

v1::Device DeviceToProto(const DeviceState& state);
// `sequences` are those of the whole pool. `lease` is null if the worker has none.
v1::Worker WorkerToProto(const WorkerReport& report, const cache::WorkerInfo* lease,
                         const std::vector<cache::SequenceInfo>& sequences);
v1::Sequence SequenceToProto(const cache::SequenceInfo& info, const CacheGeometry& geometry);
v1::GetSequenceResponse DetailToProto(const cache::SequenceDetail& detail,
                                      const CacheGeometry& geometry);
// `waiting` has the tenant of each request that waits for pages, and `quotas` those that are set.
v1::ListTenantsResponse TenantsToProto(const std::vector<cache::SequenceInfo>& sequences,
                                       const std::vector<std::string>& waiting,
                                       const cache::QuotasByTenant& quotas,
                                       const CacheGeometry& geometry);
v1::ExplainEvictionResponse ExplanationToProto(const cache::Explanation& explanation);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ADMIN_MESSAGES_H_
