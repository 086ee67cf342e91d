#include "services/cache/admission_line.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_set.h"

namespace folio::cache {

bool AdmissionLine::Ask::Counts(SteadyTime now) const {
  return could_repeat.has_value() ? now - *could_repeat < kForgetAfter : now - asked < kLongestStep;
}

bool AdmissionLine::waits(SteadyTime now) const {
  return std::any_of(asks_.begin(), asks_.end(),
                     [now](const auto& one) { return one.second.Counts(now); });
}

std::vector<std::string> AdmissionLine::WaitingTenants(SteadyTime now) const {
  std::vector<std::string> tenants;
  for (const auto& [asker, ask] : asks_) {
    if (!asker.parked.has_value() && ask.Counts(now)) tenants.push_back(ask.claims.tenant);
  }
  return tenants;
}

size_t AdmissionLine::Before(const Asker& asker, const Claims& claims, SteadyTime now) const {
  // The asker itself breaks ties.
  const auto place = [&](const Asker& who, const Claims& its) {
    return std::tuple(!who.parked.has_value(), turns_.served(its.tenant), its.due, who);
  };
  // A worker asks for one of its parked sequences at a time, so it has given up another one's turn.
  const auto gave_way = [&](const Asker& other) {
    return other.worker == asker.worker && other.parked.has_value() && asker.parked.has_value();
  };
  return static_cast<size_t>(std::count_if(asks_.begin(), asks_.end(), [&](const auto& other) {
    return other.second.Counts(now) && other.first != asker && !gave_way(other.first) &&
           place(other.first, other.second.claims) < place(asker, claims);
  }));
}

void AdmissionLine::Wait(const Asker& asker, const Claims& claims, bool steps, SteadyTime now) {
  std::erase_if(asks_, [&](const auto& one) { return !one.second.Counts(now); });
  asks_[asker] = {claims, now, steps ? std::nullopt : std::optional(now)};
}

void AdmissionLine::LeaveAll(WorkerId worker) {
  std::erase_if(asks_, [&](const auto& one) { return one.first.worker == worker; });
}

size_t AdmissionLine::Others(absl::string_view tenant, SteadyTime now) const {
  absl::flat_hash_set<absl::string_view> others;
  for (const auto& [asker, ask] : asks_) {
    const bool waits = !asker.parked.has_value() && ask.Counts(now);
    if (waits && ask.claims.tenant != tenant) others.insert(ask.claims.tenant);
  }
  return others.size();
}

void AdmissionLine::OnCommit(WorkerId worker, absl::string_view tenant, uint64_t tokens,
                             SteadyTime now) {
  turns_.Serve(tenant, tokens, Others(tenant, now));
  for (auto& [asker, ask] : asks_) {
    const bool first = asker.worker == worker && !ask.could_repeat.has_value();
    if (first && ask.Counts(now)) ask.could_repeat = now;
  }
}

}  // namespace folio::cache
