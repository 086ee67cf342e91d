#include "services/cache/lease.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::cache {

void LeaseTable::Add(WorkerId worker, std::string name, SteadyTime now) {
  leases_.emplace(worker, Lease{std::move(name), now + ttl_, false, std::nullopt});
}

absl::Status LeaseTable::Renew(WorkerId worker, SteadyTime now,
                               const std::optional<StepProgress>& progress) {
  const auto it = leases_.find(worker);
  if (it == leases_.end()) {
    return absl::NotFoundError(absl::StrCat("worker ", worker.value(), " is not attached"));
  }
  if (it->second.fenced) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", worker.value(), " (", it->second.name,
                     ") was fenced because its lease ended; attach again"));
  }
  it->second.deadline = now + ttl_;
  if (progress.has_value()) it->second.progress = progress;
  return absl::OkStatus();
}

bool LeaseTable::Fence(WorkerId worker) {
  if (!IsLive(worker)) return false;
  leases_.at(worker).fenced = true;
  return true;
}

bool LeaseTable::IsLive(WorkerId worker) const {
  const auto it = leases_.find(worker);
  return it != leases_.end() && !it->second.fenced;
}

bool LeaseTable::IsFenced(WorkerId worker) const {
  const auto it = leases_.find(worker);
  return it != leases_.end() && it->second.fenced;
}

std::vector<WorkerId> LeaseTable::Expired(SteadyTime now) const {
  std::vector<WorkerId> expired;
  for (const auto& [id, lease] : leases_) {
    if (!lease.fenced && lease.deadline < now) expired.push_back(id);
  }
  return expired;
}

}  // namespace folio::cache
