#include "services/cache/admission_line.h"

#include <algorithm>
#include <tuple>

namespace folio::cache {

bool AdmissionLine::Ask::Counts(SteadyTime now) const {
  return could_repeat.has_value() ? now - *could_repeat < kForgetAfter : now - asked < kLongestStep;
}

bool AdmissionLine::waits(SteadyTime now) const {
  return std::any_of(asks_.begin(), asks_.end(),
                     [now](const auto& one) { return one.second.Counts(now); });
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

void AdmissionLine::Enter(const Asker& asker, absl::string_view tenant) {
  asks_.erase(asker);
  // Parked sequences do not wait for a turn, so they use none up.
  if (!asker.parked.has_value()) turns_.OnTurn(tenant);
}

void AdmissionLine::LeaveAll(WorkerId worker) {
  std::erase_if(asks_, [&](const auto& one) { return one.first.worker == worker; });
}

void AdmissionLine::OnCommit(WorkerId worker, absl::string_view tenant, uint64_t tokens,
                             SteadyTime now) {
  turns_.Serve(tenant, tokens);
  for (auto& [asker, ask] : asks_) {
    const bool first = asker.worker == worker && !ask.could_repeat.has_value();
    if (first && ask.Counts(now)) ask.could_repeat = now;
  }
}

}  // namespace folio::cache
