// FairTurns has tenants take turns: where requests wait, the tenant that was served least comes
// first. So a tenant with a thousand requests holds others back for no longer than one of them.
//
// Service is counted in tokens that were computed. A tenant that was idle does not save up turns.
// It enters at a level that rises by each token's share: as if all tenants that waited for the
// token, and the one that got it, had got an equal part of it. That is the virtual time of fair
// queueing (Parekh and Gallager, IEEE/ACM Transactions on Networking, 1993). A tenant that is ahead
// of the level is level again once the others have had as much, so newcomers, however many come,
// cannot keep it waiting forever. Tokens are a lead only while other tenants wait. Within a
// tenant the order is that of urgency.h.
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
  // Tokens are counted in parts, because a token is shared among many.
  static constexpr uint64_t Parts(uint64_t tokens) { return tokens << 16; }

  // The count of the tenant, in parts of tokens. The least comes first.
  uint64_t served(absl::string_view tenant) const {
    const auto it = served_.find(tenant);
    return it == served_.end() ? level_ : std::max(it->second, level_);
  }

  // Tenants that are remembered.
  size_t remembered() const { return served_.size(); }

  // So many tokens were computed for the tenant while so many others waited.
  void Serve(absl::string_view tenant, uint64_t tokens, size_t others) {
    if (tokens == 0) return;
    auto it = served_.find(tenant);
    if (it == served_.end()) {
      // Tenants that are not ahead of the level are as those that were never seen, and are
      // forgotten when a new one comes.
      absl::erase_if(served_, [this](const auto& one) { return one.second <= level_; });
      it = served_.try_emplace(tenant, level_).first;
    }
    it->second = std::max(it->second, level_) + Parts(tokens);
    level_ += Parts(tokens) / (others + 1);
  }

 private:
  uint64_t level_ = 0;
  absl::flat_hash_map<std::string, uint64_t> served_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_FAIR_TURNS_H_
