#include "services/manager/turn_watch.h"

#include <utility>

namespace folio::manager {

TurnWatch::TurnWatch(absl::Duration limit, std::function<void(bool)> report)
    : limit_(limit), report_(std::move(report)) {}

void TurnWatch::Start() {
  thread_ = std::thread([this] { Run(); });
}

void TurnWatch::Stop() {
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
}

void TurnWatch::Run() {
  const absl::Duration interval = limit_ / 10;
  uint64_t seen = turns_;
  bool going = true;
  absl::Duration standing;
  while (!stop_.WaitFor(interval)) {
    const uint64_t turns = turns_;
    standing = turns == seen ? standing + interval : absl::ZeroDuration();
    seen = turns;
    const bool goes = standing < limit_;
    if (goes != going) report_(goes);
    going = goes;
  }
}

}  // namespace folio::manager
