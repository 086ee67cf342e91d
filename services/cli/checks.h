// Check is one finding of `folioctl doctor`: what was looked at, how it is, and what to do about
// it. The functions here judge facts and make no calls, so that each can be tested.
#ifndef FOLIO_SERVICES_CLI_CHECKS_H_
#define FOLIO_SERVICES_CLI_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "folio/v1/admin.pb.h"

namespace folio::cli {

enum class Health : uint8_t {
  kOk,
  kWarn,  // works, and may not for long or not well
  kFail,  // does not work
};

struct Check {
  std::string name;
  Health health = Health::kOk;
  std::string found;
  std::string advice = {};  // empty if nothing is to be done
};
using Checks = std::vector<Check>;

// "ok", "warn" or "fail".
const char* HealthName(Health health);

// The socket or host of a process that did not answer, or did.
Check CheckConnection(const std::string& process, const std::string& address,
                      const absl::Status& status);
// Both are texts of --version, without the program's name.
Check CheckVersions(const std::string& own, const std::string& manager);
// Pages left, quarantine, swap memory, and huge pages of each pool, or that there is none.
Checks CheckPools(const folio::v1::ListPoolsResponse& pools);
// Workers that are fenced, stand still or are about to lose their lease.
Checks CheckWorkers(const folio::v1::ListWorkersResponse& workers);
// A drain that an operator has forgotten, tenants that wait.
Checks CheckWaiting(const folio::v1::GetManagerResponse& manager,
                    const folio::v1::ListTenantsResponse& tenants);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_CHECKS_H_
