#include "services/manager/drains.h"

#include "absl/strings/str_cat.h"
#include "services/manager/worker_name.h"

namespace folio::manager {

void Drains::End() {
  absl::MutexLock lock(&mu_);
  ending_ = true;
}

bool Drains::ending() const {
  absl::MutexLock lock(&mu_);
  return ending_;
}

void Drains::Order(bool drain) {
  absl::MutexLock lock(&mu_);
  all_ = drain;
}

void Drains::Order(WorkerId worker, bool drain) {
  absl::MutexLock lock(&mu_);
  if (drain) {
    workers_.insert(worker);
  } else {
    workers_.erase(worker);
  }
}

bool Drains::ordered() const {
  absl::MutexLock lock(&mu_);
  return all_;
}

bool Drains::ordered(WorkerId worker) const {
  absl::MutexLock lock(&mu_);
  return workers_.contains(worker);
}

void Drains::Forget(WorkerId worker) { Order(worker, /*drain=*/false); }

absl::Status Drains::MayOpen() const {
  absl::MutexLock lock(&mu_);
  if (ending_) {
    return absl::UnavailableError("the manager is draining and takes on no more sequences");
  }
  if (!all_) return absl::OkStatus();
  return absl::UnavailableError("an operator has the manager take no new sequences");
}

absl::Status Drains::MayOpen(WorkerId worker) const {
  if (absl::Status status = MayOpen(); !status.ok()) return status;
  if (!ordered(worker)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("an operator has worker ", WorkerName(worker), " take no new sequences"));
}

}  // namespace folio::manager
