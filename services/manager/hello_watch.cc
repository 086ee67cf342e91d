#include "services/manager/hello_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::manager {

HelloWatch::Waiting::Waiting(HelloWatch* watch, End end)
    : watch_(watch), number_(watch->Add(std::move(end))) {}

HelloWatch::Waiting::~Waiting() { watch_->Remove(number_); }

uint64_t HelloWatch::Add(End end) {
  absl::MutexLock lock(&mu_);
  if (streams_.size() >= limits_.streams) {
    const auto oldest = streams_.begin();
    oldest->second.end(absl::UnavailableError(
        absl::StrCat("hello: ", limits_.streams,
                     " newer sessions wait for theirs; send it with the stream and try again")));
    streams_.erase(oldest);
  }
  streams_[++last_] = {clock_->Now(), std::move(end)};
  return last_;
}

void HelloWatch::Remove(uint64_t number) {
  absl::MutexLock lock(&mu_);
  streams_.erase(number);
}

void HelloWatch::EndLate() {
  const absl::Status why = absl::DeadlineExceededError(
      absl::StrCat("hello: the first request of a session must carry it within ",
                   absl::FormatDuration(limits_.timeout)));
  const SteadyTime now = clock_->Now();
  absl::MutexLock lock(&mu_);
  while (!streams_.empty() && now - streams_.begin()->second.since >= limits_.timeout) {
    streams_.begin()->second.end(why);
    streams_.erase(streams_.begin());
  }
}

}  // namespace folio::manager
