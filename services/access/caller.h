// Caller is the one who makes a call, as the rules of --access know it by what the call shows.
#ifndef FOLIO_SERVICES_ACCESS_CALLER_H_
#define FOLIO_SERVICES_ACCESS_CALLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/access/access_rules.h"

namespace folio::access {

// A plain value.
struct Caller {
  // For a log, such as `alice, token of line 3`. It never has a secret in it.
  std::string name;
  TenantScope scope = TenantScope::kNone;
  std::string tenant;  // with kOne
  Right right = Right::kNone;
};

// The caller of a daemon without --access, which may do everything.
Caller Anyone();

// Shown is what a call shows of its caller. A plain value that borrows the headers' text.
struct Shown {
  std::vector<absl::string_view> authorization = {};  // each header of this name, as it came
  // The names in a certificate that the server has verified: the alternative names of its subject,
  // and then its common name.
  std::vector<std::string> certificate_names = {};
  bool unix_socket = false;
};

// The caller by its token, else by the first name of its certificate that has a line, else by the
// line unix. UNAUTHENTICATED says what to show. A call with a wrong token does not count as one
// without. How long it takes does not tell how near a wrong token is. Pure.
absl::StatusOr<Caller> FindCaller(const AccessRules& rules, const Shown& shown);

// Whether the caller may make a request for `tenant`, and for which tenant the request then is. An
// empty name stands for the caller's own. PERMISSION_DENIED names the field.
absl::StatusOr<std::string> TenantFor(const Caller& caller, absl::string_view tenant);

// The priority of a request for the tenant, no more urgent than that tenant may have.
int32_t PriorityFor(const AccessRules& rules, absl::string_view tenant, int32_t priority);

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_CALLER_H_
