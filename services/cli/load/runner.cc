#include "services/cli/load/runner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/base/steady_wait.h"
#include "services/cli/load/full_load.h"
#include "services/cli/load/schedule.h"

namespace folio::load {
namespace {

// The thread wakes so often even if nothing happens, so that it sees an interrupt.
constexpr absl::Duration kTick = absl::Milliseconds(200);

// Calls that have ended and wait to be counted.
class EndedCalls {
 public:
  void Add(Call* call) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    calls_.emplace_back(call);
    changed_.SignalAll();
  }
  // Waits for one until that time.
  std::vector<std::unique_ptr<Call>> Take(SteadyTime until) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    changed_.Await(&mutex_, until,
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calls_.empty(); });
    return std::exchange(calls_, {});
  }

 private:
  absl::Mutex mutex_;
  SteadyCondVar changed_;  // calls_
  std::vector<std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
};

class Run {
 public:
  Run(client::Streams& streams, const RequestPlan& requests, const RunPlan& plan)
      : streams_(streams), requests_(requests), plan_(plan), full_(plan.clients) {
    result_.by_choice.resize(requests.mix.size());
    MakeNext();
    begin_ = last_ = SteadyNow();
    if (plan.clients > 0) {
      schedule_ = std::make_unique<ClosedLoop>(plan.clients, begin_);
    } else {
      schedule_ = std::make_unique<OpenLoop>(plan.rate, plan.burstiness, requests.seed, begin_);
    }
  }

  RunResult Go(const std::function<void(const RunResult&)>& progress) {
    while (MayAsk() || result_.running > 0) {
      while (MayAsk() && schedule_->Next() <= SteadyNow()) Ask();
      SteadyTime until = SteadyNow() + kTick;
      if (MayAsk()) until = std::min(until, schedule_->Next());
      for (const auto& call : ended_.Take(until)) Count(call->outcome);
      Summarize();
      progress(result_);
    }
    return std::move(result_);
  }

 private:
  // Whether another request will be sent, at once or later.
  bool MayAsk() const {
    if (result_.sent >= plan_.requests || plan_.cancellation.cancelled()) return false;
    const SteadyTime next = schedule_->Next();
    const SteadyTime end = begin_ + plan_.duration;
    return next == SteadyTime::InfiniteFuture() ? SteadyNow() < end : next < end;
  }

  // A request is made before it is due, so that making it delays no other.
  void MakeNext() { next_ = MakeRequest(requests_, plan_.first_request + result_.sent); }

  void Ask() {
    const SteadyTime due = schedule_->Next();
    schedule_->Sent();
    auto call = std::make_unique<Call>(&full_, [this](Call* ended) { ended_.Add(ended); });
    const SteadyTime now = SteadyNow();
    Outcome& outcome = call->outcome;
    outcome.choice = next_.choice;
    outcome.prompt_tokens = next_.prompt_tokens;
    outcome.late = absl::ToDoubleSeconds(now - due);
    // In an open loop a delay of this program is part of what a user waits for.
    outcome.asked = plan_.clients > 0 ? now : due;
    client::CallOptions options;
    options.deadline = now + plan_.timeout;
    options.resume = plan_.resume;
    options.cancellation = plan_.cancellation;
    // It comes back through ended_.
    streams_.Start(next_.request, result_.sent % plan_.workers, call.release(), options);
    ++result_.sent;
    result_.most_running = std::max(result_.most_running, ++result_.running);
    MakeNext();
  }

  void Count(const Outcome& outcome) {
    --result_.running;
    last_ = std::max(last_, outcome.ended);
    const bool cancelled = plan_.cancellation.cancelled();
    result_.all.Add(outcome, plan_.goals, cancelled);
    result_.by_choice[outcome.choice].Add(outcome, plan_.goals, cancelled);
    schedule_->Ended(outcome.ended, outcome.status.ok());
  }

  void Summarize() {
    const SteadyTime until = result_.running > 0 ? SteadyNow() : last_;
    result_.seconds = absl::ToDoubleSeconds(until - begin_);
    result_.tokens = full_.tokens();
    result_.full_seconds = full_.seconds();
    result_.full_tokens = full_.counted();
  }

  client::Streams& streams_;
  const RequestPlan& requests_;
  const RunPlan& plan_;
  FullLoad full_;
  EndedCalls ended_;
  std::unique_ptr<Schedule> schedule_;
  SteadyTime begin_, last_;
  Made next_;
  RunResult result_;
};

}  // namespace

RunResult RunLoad(client::Streams& streams, const RequestPlan& requests, const RunPlan& plan,
                  const std::function<void(const RunResult&)>& progress) {
  return Run(streams, requests, plan).Go(progress);
}

}  // namespace folio::load
