#include "services/manager/event_log.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace folio::manager {
namespace {

// Workers and clients choose some of the texts, so these must not be as long as they like.
constexpr size_t kMostTextBytes = 512;

void Cut(std::optional<std::string>& text) {
  if (!text.has_value() || text->size() <= kMostTextBytes) return;
  size_t end = kMostTextBytes;
  // Not inside of a character.
  while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xC0) == 0x80) --end;
  *text = text->substr(0, end) + "...";
}

}  // namespace

uint64_t EventLog::Ring::PlaceAfter(uint64_t number) const {
  // Which of the dropped events came later is not known any more, so this is the earliest place.
  if (number < newest_dropped) return dropped - std::min(dropped, newest_dropped - number);
  const auto later =
      std::upper_bound(events.begin(), events.end(), number,
                       [](uint64_t wanted, const auto& event) { return wanted < event->number; });
  return dropped + static_cast<uint64_t>(later - events.begin());
}

void EventLog::Append(Event event) {
  // Memory is taken before the lock, and given back after it.
  for (std::optional<std::string>* text : {&event.worker_name, &event.label, &event.text}) {
    Cut(*text);
  }
  const auto stored = std::make_shared<Event>(std::move(event));
  std::shared_ptr<const Event> oldest;
  bool wake = false;
  {
    const absl::MutexLock lock(&mu_);
    stored->number = ++newest_;
    stored->time_us = absl::GetCurrentTimeNanos() / 1000;
    Ring& ring = rings_[static_cast<size_t>(stored->kind)];
    ring.events.push_back(stored);
    if (ring.events.size() > limits_.events_of_a_kind) {
      oldest = std::move(ring.events.front());
      ring.events.pop_front();
      ++ring.dropped;
      ring.newest_dropped = oldest->number;
    }
    wake = waiting_ > 0;
  }
  if (wake) changed_.SignalAll();
}

void EventLog::Close(absl::Duration patience) {
  const absl::MutexLock lock(&mu_);
  closed_ = true;
  changed_.SignalAll();
  changed_.Await(&mu_, SteadyNow() + patience,
                 [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return watches_ == 0; });
}

uint64_t EventLog::newest() const {
  const absl::MutexLock lock(&mu_);
  return newest_;
}

absl::StatusOr<std::unique_ptr<EventWatch>> EventLog::Watch(const EventKindSet& kinds,
                                                            uint64_t after) {
  const absl::MutexLock lock(&mu_);
  if (after > newest_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "after: ", after, " is beyond the newest event, ", newest_,
        "; numbers begin at 1 when a manager starts, so begin with 0 if it has started again"));
  }
  if (watches_ >= limits_.watches) {
    return absl::ResourceExhaustedError(
        absl::StrCat(watches_,
                     " streams of events are open, which is the most; end one of them, or read the "
                     "manager's log instead"));
  }
  ++watches_;
  std::unique_ptr<EventWatch> watch(new EventWatch(this, kinds));
  for (size_t kind = 0; kind < kEventKinds; ++kind) {
    watch->places_[kind] = rings_[kind].PlaceAfter(after);
  }
  return watch;
}

EventWatch::~EventWatch() {
  const absl::MutexLock lock(&log_->mu_);
  --log_->watches_;
  if (log_->closed_) log_->changed_.SignalAll();
}

EventLog::Ring* EventWatch::Earliest(uint64_t** place) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  EventLog::Ring* earliest = nullptr;
  uint64_t least = 0;
  for (size_t kind = 0; kind < kEventKinds; ++kind) {
    EventLog::Ring& ring = log_->rings_[kind];
    if (!kinds_.test(kind) || places_[kind] >= ring.end()) continue;
    const uint64_t number = ring.events[places_[kind] - ring.dropped]->number;
    if (earliest != nullptr && number > least) continue;
    earliest = &ring;
    least = number;
    *place = &places_[kind];
  }
  return earliest;
}

EventBatch EventWatch::Next(SteadyTime deadline) {
  EventBatch batch;
  const absl::MutexLock lock(&log_->mu_);
  const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (log_->closed_) return true;
    for (size_t kind = 0; kind < kEventKinds; ++kind) {
      if (kinds_.test(kind) && places_[kind] < log_->rings_[kind].end()) return true;
    }
    return false;
  };
  ++log_->waiting_;
  const bool more = log_->changed_.Await(&log_->mu_, deadline, ready);
  --log_->waiting_;
  if (!more) return batch;
  for (size_t kind = 0; kind < kEventKinds; ++kind) {
    const uint64_t dropped = log_->rings_[kind].dropped;
    if (!kinds_.test(kind) || places_[kind] >= dropped) continue;
    batch.lost += dropped - places_[kind];
    places_[kind] = dropped;
  }
  uint64_t* place = nullptr;
  while (batch.events.size() < kMostAtOnce) {
    const EventLog::Ring* ring = Earliest(&place);
    if (ring == nullptr) break;
    batch.events.push_back(ring->events[*place - ring->dropped]);
    ++*place;
  }
  batch.last = log_->closed_ && batch.events.size() < kMostAtOnce;
  return batch;
}

}  // namespace folio::manager
