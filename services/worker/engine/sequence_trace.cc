#include "services/worker/engine/sequence_trace.h"

#include <algorithm>

namespace folio::worker {

void SequenceTrace::OnAsked(SteadyTime now) {
  const absl::MutexLock lock(&mutex_);
  asked_ = now;
}

void SequenceTrace::OnPlan(PlanEpoch epoch, bool compaction, uint32_t freed_pages,
                           SteadyTime received) {
  const absl::MutexLock lock(&mutex_);
  ++notes_.all_plans;
  if (notes_.plans.size() < kMostPlans) {
    notes_.plans.push_back({.epoch = epoch,
                            .compaction = compaction,
                            .freed_pages = freed_pages,
                            .asked = asked_,
                            .received = received,
                            .done = std::nullopt});
  }
  asked_.reset();
}

void SequenceTrace::OnAcknowledged(PlanEpoch epoch, SteadyTime now) {
  const absl::MutexLock lock(&mutex_);
  // The newest ones are last, and the manager may give a plan of that number again.
  const auto plan = std::find_if(notes_.plans.rbegin(), notes_.plans.rend(),
                                 [&](const Plan& one) { return one.epoch == epoch; });
  if (plan != notes_.plans.rend()) plan->done = now;
}

void SequenceTrace::OnPark(bool parked, SteadyTime now) {
  const absl::MutexLock lock(&mutex_);
  ++notes_.all_parks;
  if (notes_.parks.size() < kMostParks) notes_.parks.push_back({now, parked});
  asked_.reset();
}

SequenceTrace::Notes SequenceTrace::notes() const {
  const absl::MutexLock lock(&mutex_);
  return notes_;
}

}  // namespace folio::worker
