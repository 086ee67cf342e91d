#include "services/policy/parameters.h"

#include "services/base/invalid_argument.h"

namespace folio::policy {

absl::Status CheckWindow(absl::string_view policy, uint32_t window, uint32_t pool) {
  constexpr uint32_t kMaxPool = 127;
  if (window == 0) {
    return InvalidArgument(
        policy, ".window 0: at least one query must look back; leave it out for the default");
  }
  if (pool % 2 == 1 && pool <= kMaxPool) return absl::OkStatus();
  return InvalidArgument(policy, ".pool ", pool, " must be odd, from 1 to ", kMaxPool,
                         ": as many neighbours on one side as on the other");
}

}  // namespace folio::policy
