#include "services/cache/decision_threads.h"

#include <algorithm>

namespace folio::cache {

uint32_t DefaultDecisionThreads() { return std::min(3U, std::thread::hardware_concurrency() / 4); }

DecisionThreads::DecisionThreads(uint32_t threads) {
  threads_.reserve(threads);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Serve(); });
}

DecisionThreads::~DecisionThreads() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void DecisionThreads::Run(uint32_t count, absl::FunctionRef<void(uint32_t)> work) {
  if (threads_.empty() || count < 2) {
    for (uint32_t part = 0; part < count; ++part) work(part);
    return;
  }
  Job job{work, count};
  absl::MutexLock lock(&mutex_);
  jobs_.push_back(&job);
  while (job.next < job.count) RunPart(job);
  mutex_.Await(absl::Condition(
      +[](Job* one) { return one->ended == one->count; }, &job));
}

void DecisionThreads::RunPart(Job& job) {
  const uint32_t part = job.next++;
  if (job.next == job.count) jobs_.remove(&job);
  mutex_.Unlock();
  job.work(part);
  mutex_.Lock();
  ++job.ended;
}

void DecisionThreads::Serve() {
  absl::MutexLock lock(&mutex_);
  for (;;) {
    mutex_.Await(absl::Condition(this, &DecisionThreads::HasPart));
    if (jobs_.empty()) return;  // ending
    RunPart(*jobs_.front());
  }
}

}  // namespace folio::cache
