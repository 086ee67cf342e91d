// FairTurns has tenants take turns: where requests wait, the tenant that was served least comes
// first. So a tenant with a thousand requests holds others back for no longer than one of them.
//
// Service is counted in tokens that were computed. A tenant that was idle does not save up turns:
// it enters at the count of the tenant whose turn was last, which is start-time fair queueing
// (Goyal, Vin and Cheng, SIGCOMM 1996). Within a tenant the order is that of urgency.h.
//
// Not thread-safe.
#ifndef FOLIO_SERVICES_BASE_FAIR_TURNS_H_
#define FOLIO_SERVICES_BASE_FAIR_TURNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace folio {

// The longest name of a tenant, in bytes.
inline constexpr size_t kMaxTenantBytes = 64;

class FairTurns {
 public:
  // The tokens that count for the tenant. The least comes first.
  uint64_t served(absl::string_view tenant) const {
    const auto it = served_.find(tenant);
    return it == served_.end() ? now_ : std::max(it->second, now_);
  }

  // Tenants that count.
  size_t remembered() const { return served_.size(); }

  // So many tokens were computed for the tenant.
  void Serve(absl::string_view tenant, uint64_t tokens) {
    if (tokens > 0) served_[tenant] = served(tenant) + tokens;
  }

  // A request of the tenant found room. Tenants that were served no more than it are as those that
  // were never seen, and are forgotten.
  void OnTurn(absl::string_view tenant) {
    now_ = served(tenant);
    absl::erase_if(served_, [this](const auto& one) { return one.second <= now_; });
  }

 private:
  uint64_t now_ = 0;  // of the tenant whose turn was last
  absl::flat_hash_map<std::string, uint64_t> served_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_FAIR_TURNS_H_
