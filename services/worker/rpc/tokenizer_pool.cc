#include "services/worker/rpc/tokenizer_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/engine/refusal.h"

namespace folio::worker {

TokenizerPool::TokenizerPool(const TokenizerPoolLimits& limits) : limits_(limits) {
  threads_.reserve(static_cast<size_t>(limits_.threads));
  for (int i = 0; i < limits_.threads; ++i) threads_.emplace_back([this] { Work(); });
}

TokenizerPool::~TokenizerPool() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status TokenizerPool::Run(size_t bytes, std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  const bool fits = waiting_.size() < limits_.tasks && waiting_bytes_ + bytes <= limits_.bytes;
  if (!fits && !waiting_.empty()) {
    absl::Status full = absl::ResourceExhaustedError(
        absl::StrCat("too many requests wait to be tokenized: ", waiting_.size(), " with ",
                     waiting_bytes_, " bytes; try again later"));
    return WithReason(std::move(full), kTokenizerFull);
  }
  waiting_bytes_ += bytes;
  waiting_.push_back({bytes, std::move(task)});
  return absl::OkStatus();
}

void TokenizerPool::Work() {
  for (;;) {
    std::function<void()> run;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &TokenizerPool::HasWork));
      if (waiting_.empty()) return;
      run = std::move(waiting_.front().run);
      waiting_bytes_ -= waiting_.front().bytes;
      waiting_.pop_front();
    }
    run();
  }
}

}  // namespace folio::worker
