// These functions convert the quota of a tenant to its message and back. They are pure and may be
// called from any thread.
#ifndef FOLIO_SERVICES_MANAGER_QUOTA_MESSAGE_H_
#define FOLIO_SERVICES_MANAGER_QUOTA_MESSAGE_H_

#include "absl/status/statusor.h"
#include "folio/v1/admin.pb.h"
#include "services/cache/tenant_quotas.h"

namespace folio::manager {

v1::Quota QuotaToProto(const cache::Quota& quota);
// INVALID_ARGUMENT: no request may begin, or more in a minute than any tenant may.
absl::StatusOr<cache::Quota> QuotaFromProto(const v1::Quota& message);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_QUOTA_MESSAGE_H_
