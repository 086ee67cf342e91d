// AccessQuotas sets the quotas of the tenants that the file of --access defines.
#ifndef FOLIO_SERVICES_MANAGER_ACCESS_QUOTAS_H_
#define FOLIO_SERVICES_MANAGER_ACCESS_QUOTAS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/access/access_list.h"
#include "services/manager/kept_quotas.h"

namespace folio::manager {

// An operator's SetQuota overrides the file until the file changes, or the manager starts with a
// file that limits the tenant. Quotas of tenants that the file has never defined stay as they are.
// Not thread-safe.
class AccessQuotas {
 public:
  // Borrows `quotas`. Without a list it does nothing.
  AccessQuotas(std::shared_ptr<access::AccessList> list, KeptQuotas* quotas)
      : list_(std::move(list)), quotas_(quotas) {}

  // Sets them if the file is another one than at the last call. Logs those that find no room.
  void Apply();

 private:
  const std::shared_ptr<access::AccessList> list_;
  KeptQuotas* const quotas_;
  uint64_t version_ = 0;              // of the file that was applied, 0 for none
  std::vector<std::string> tenants_;  // that it defined
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ACCESS_QUOTAS_H_
