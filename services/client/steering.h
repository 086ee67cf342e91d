// Steering is the part of a manager's client that changes something. Each call takes a reason of at
// most 256 bytes, which the manager's log and its events show.
//
// Thread-safe. All calls end with PERMISSION_DENIED if the manager was started with
// --steering=false.
#ifndef FOLIO_SERVICES_CLIENT_STEERING_H_
#define FOLIO_SERVICES_CLIENT_STEERING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/client/admin_client.h"
#include "services/client/call.h"

namespace folio::client {

class Steering {
 public:
  // Borrows the client.
  explicit Steering(AdminClient& client) : client_(client) {}

  // Ends a sequence, whose client gets ABORTED with the reason. NOT_FOUND: it is not open.
  absl::Status Close(uint64_t sequence_id, const std::string& reason,
                     const CallOptions& options = {});
  // Has a sequence give its pages back. It gets pages again when there is room. NOT_FOUND.
  // FAILED_PRECONDITION: it is pinned, parked or an orphan, or its worker cannot park.
  absl::Status Park(uint64_t sequence_id, const std::string& reason,
                    const CallOptions& options = {});
  // Protects a sequence from being parked, or with `undo` ends that. NOT_FOUND.
  // RESOURCE_EXHAUSTED: the pool is too small for all pinned sequences.
  absl::Status Pin(uint64_t sequence_id, bool undo, const std::string& reason,
                   const CallOptions& options = {});
  // Lowers the budget of each layer to so many tokens, rounded up to whole pages, unless it is
  // lower already, and returns the budgets from now on. The sequence comes down to them while it
  // decodes. NOT_FOUND. FAILED_PRECONDITION: its policy evicts nothing, or its prompt is in
  // prefill. INVALID_ARGUMENT: no layer has more, or the policy protects more.
  absl::StatusOr<folio::v1::LowerBudgetResponse> LowerBudget(uint64_t sequence_id,
                                                             uint32_t budget_tokens,
                                                             const std::string& reason,
                                                             const CallOptions& options = {});
  // Sets the most that a tenant may have open at a time and begin in a minute, until the manager
  // ends or its --access file changes. A quota without limits takes it away. It ends nothing that
  // is open. INVALID_ARGUMENT: the name is too long, or no request may begin. RESOURCE_EXHAUSTED:
  // too many tenants have a quota.
  absl::Status SetQuota(const std::string& tenant, const folio::v1::Quota& quota,
                        const std::string& reason, const CallOptions& options = {});
  // Has a worker take no new sequences, or all workers if the id is empty, or with `undo` ends
  // that. Returns how many sequences run there. NOT_FOUND. FAILED_PRECONDITION: it is fenced.
  absl::StatusOr<uint32_t> Drain(const std::string& worker_id, bool undo, const std::string& reason,
                                 const CallOptions& options = {});
  // Gives the pages of a fenced worker back, whose processes have ended, as the caller vouches, and
  // returns how many they were. NOT_FOUND. FAILED_PRECONDITION: it is not fenced, or the manager
  // sees that a process of it runs.
  absl::StatusOr<uint32_t> ReleaseQuarantine(const std::string& worker_id,
                                             const std::string& reason,
                                             const CallOptions& options = {});

 private:
  AdminClient& client_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_STEERING_H_
