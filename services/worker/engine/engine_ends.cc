// The part of engine.h about the end of the step loop, and what it counts.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/engine/engine.h"

namespace folio::worker {

absl::Status EngineShutdown() { return absl::UnavailableError("the worker is shutting down"); }

absl::Status Engine::Stop(absl::Status why) {
  for (; !in_flight_.empty(); in_flight_.pop_front()) {
    executor_->Collect(in_flight_.front().ticket);
    gauge_->OnCollected();
  }
  const absl::Status refusal =
      why.ok() ? EngineShutdown()
               : absl::UnavailableError(
                     absl::StrCat("the worker cannot continue (", why.message(), "); try again"));
  const SteadyTime now = SteadyNow();
  waiting_.Add(queue_->Close(refusal), now);
  waiting_.PutBack(session_.TakeRefused(), now);
  waiting_.EndAll(refusal);
  session_.Abandon(refusal);
  PublishCounters();
  return why;
}

void Engine::Drain(SteadyTime deadline) {
  {
    absl::MutexLock lock(&mutex_);
    drain_deadline_ = std::min(drain_deadline_.value_or(SteadyTime::InfiniteFuture()), deadline);
  }
  queue_->Refuse(EngineShutdown());
  queue_->Wake();
}

std::optional<SteadyTime> Engine::drain_deadline() const {
  absl::MutexLock lock(&mutex_);
  return drain_deadline_;
}

std::optional<SteadyTime> Engine::OldestWaiting() const {
  std::optional<SteadyTime> oldest = waiting_.oldest();
  for (const auto& sequence : session_.sequences()) {
    // The manager may have no room for it, and then it is in the line again.
    if (sequence->state().phase() != Phase::kOpening) continue;
    const SteadyTime arrival = sequence->request().arrival;
    oldest = std::min(oldest.value_or(arrival), arrival);
  }
  return oldest;
}

void Engine::PublishCounters() {
  uint32_t held_pages = 0, paused = 0, parked = 0;
  for (const auto& sequence : session_.sequences()) {
    if (sequence->submission()->paused.load()) ++paused;
    if (sequence->state().phase() == Phase::kParked) ++parked;
    const std::optional<HeldSlot>& held = sequence->state().held();
    if (held) held_pages += executor_->tables().at(held->slot).total_pages();
  }
  const std::optional<SteadyTime> oldest = OldestWaiting();
  absl::MutexLock lock(&mutex_);
  counters_ = totals_;
  counters_.oldest_waiting = oldest;
  counters_.held_pages = held_pages;
  counters_.pool_pages = options_.num_pages;
  counters_.running = static_cast<uint32_t>(session_.sequences().size());
  counters_.queued = static_cast<uint32_t>(waiting_.size());
  counters_.paused = paused;
  counters_.parked = parked;
  counters_.preemptions = session_.parking().preemptions();
}

EngineCounters Engine::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

}  // namespace folio::worker
