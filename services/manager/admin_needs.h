// AdminCallOf tells what a call of the Admin service needs of its caller.
#ifndef FOLIO_SERVICES_MANAGER_ADMIN_NEEDS_H_
#define FOLIO_SERVICES_MANAGER_ADMIN_NEEDS_H_

#include <google/protobuf/message.h>

#include "absl/strings/string_view.h"
#include "services/access/gate.h"

namespace folio::manager {

// A plain value.
struct AdminCall {
  absl::string_view name;  // such as "ListPools"; it lives as long as the process
  access::Need need = access::Need::kSteer;
};

// The call that takes this message. Calls that are not known to read only need steer. Pure.
AdminCall AdminCallOf(const google::protobuf::Message& request);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ADMIN_NEEDS_H_
