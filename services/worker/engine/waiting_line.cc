#include "services/worker/engine/waiting_line.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/urgency.h"
#include "services/worker/engine/refusal.h"

namespace folio::worker {
namespace {

// The manager answers within a fraction of a millisecond, and a request carries its whole prompt.
// So the first pause is short, and the longest one keeps the cost of waiting negligible.
constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(200);
constexpr absl::Duration kFirstReport =
    absl::Milliseconds(100);  // a shorter wait is not worth a message
constexpr absl::Duration kReportInterval = absl::Seconds(1);

}  // namespace

WaitingLine::WaitingLine(absl::Duration timeout, RequestQueue* queue)
    : timeout_(timeout), queue_(queue), pause_(kFirstPause) {}

void WaitingLine::Add(std::vector<std::shared_ptr<Submission>> submissions, SteadyTime now) {
  if (line_.empty()) next_report_ = now + kFirstReport;
  for (auto& submission : submissions) {
    const Urgency urgency = {.priority = submission->request.priority, .waited = {}};
    submission->waiting = {.number = ++last_number_, .since = now, .due = urgency.Due(now)};
    Insert(std::move(submission));
  }
}

void WaitingLine::Insert(std::shared_ptr<Submission> submission) {
  const auto place = [](const Submission& one) {
    return std::tuple(one.waiting.due, one.waiting.number);
  };
  const auto after = std::find_if(line_.begin(), line_.end(), [&](const auto& other) {
    return place(*other) > place(*submission);
  });
  ++of_tenant_[submission->request.tenant];
  line_.insert(after, std::move(submission));
}

void WaitingLine::Leave(const Submission& submission) {
  const auto it = of_tenant_.find(submission.request.tenant);
  if (--it->second == 0) of_tenant_.erase(it);
}

void WaitingLine::OnComputed(const std::string& tenant, uint64_t tokens) {
  turns_.Serve(tenant, tokens, of_tenant_.size() - of_tenant_.count(tenant));
}

void WaitingLine::PutBack(std::vector<Refused> refused, SteadyTime now) {
  if (refused.empty()) return;
  if (line_.empty()) next_report_ = now + kFirstReport;
  full_ = refused.front().why;
  head_tried_ = false;
  next_try_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  for (Refused& one : refused) {
    one.submission->waiting.refused_once = true;
    Insert(std::move(one.submission));
  }
  queue_->OnWaiting(static_cast<ptrdiff_t>(refused.size()));
}

void WaitingLine::OnRoom() { next_try_ = SteadyTime::InfinitePast(); }

std::vector<std::shared_ptr<Submission>> WaitingLine::Take(Places places, bool asking,
                                                           SteadyTime now) {
  if (head_tried_ && !asking) {
    // It found room, and so may those behind it.
    head_tried_ = false;
    full_ = absl::OkStatus();
    pause_ = kFirstPause;
  }
  std::vector<std::shared_ptr<Submission>> taken;
  std::erase_if(line_, [&](const std::shared_ptr<Submission>& submission) {
    const bool passes = submission->request.resume.has_value() && places.free() > 0 &&
                        (!submission->waiting.refused_once || now >= next_try_);
    if (!passes) return false;
    places.Use(submission->request.prompt.size());
    Leave(*submission);
    taken.push_back(submission);
    return true;
  });
  const bool may_try = !asking && (full_.ok() || now >= next_try_);
  absl::flat_hash_map<std::string, uint64_t> to_compute;
  while (may_try && !head_tried_) {
    const auto head = line_.begin() + static_cast<ptrdiff_t>(Head(places, to_compute));
    if (head == line_.end()) break;
    const SequenceRequest& request = (*head)->request;
    places.Use(request.prompt.size());
    to_compute[request.tenant] += request.prompt.size() + 1;
    Leave(**head);
    taken.push_back(std::move(*head));
    line_.erase(head);
    head_tried_ = !full_.ok();  // it alone
  }
  if (!taken.empty()) queue_->OnWaiting(-static_cast<ptrdiff_t>(taken.size()));
  return taken;
}

size_t WaitingLine::Head(const Places& places,
                         const absl::flat_hash_map<std::string, uint64_t>& more) const {
  size_t head = line_.size();
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < line_.size(); ++i) {
    if (!places.Admits(line_[i]->request.prompt.size())) continue;
    const std::string& tenant = line_[i]->request.tenant;
    const auto it = more.find(tenant);
    const uint64_t served =
        turns_.served(tenant) + FairTurns::Parts(it == more.end() ? 0 : it->second);
    if (served >= least) continue;
    least = served;
    head = i;
  }
  return head;
}

std::vector<Submission*> WaitingLine::InOrder() const {
  struct Place {
    uint32_t of_tenant;  // requests of its tenant before it
    uint64_t served;
    Submission* submission;
  };
  absl::flat_hash_map<std::string, uint32_t> seen;
  std::vector<Place> places;
  places.reserve(line_.size());
  for (const auto& submission : line_) {
    const std::string& tenant = submission->request.tenant;
    places.push_back({seen[tenant]++, turns_.served(tenant), submission.get()});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tuple(a.of_tenant, a.served) < std::tuple(b.of_tenant, b.served);
  });
  std::vector<Submission*> order;
  order.reserve(places.size());
  for (const Place& place : places) order.push_back(place.submission);
  return order;
}

absl::Status WaitingLine::LateError(size_t place) const {
  absl::Status late = absl::ResourceExhaustedError(
      absl::StrCat("waited ", absl::FormatDuration(timeout_),
                   " (--queue_timeout), at last at place ", place, " of ", line_.size(), ": ",
                   full_.ok() ? "no place of --max_batch was free for it" : full_.message()));
  return WithReason(std::move(late), kQueueTimeout);
}

void WaitingLine::End(absl::FunctionRef<absl::Status(const Submission&)> why, SteadyTime now) {
  std::vector<std::pair<std::shared_ptr<Submission>, absl::Status>> ended;
  for (size_t i = 0; i < line_.size(); ++i) {
    absl::Status status = why(*line_[i]);
    if (status.ok() && now - line_[i]->waiting.since >= timeout_) status = LateError(i + 1);
    if (!status.ok()) ended.emplace_back(line_[i], std::move(status));
  }
  if (ended.empty()) return;
  auto next = ended.begin();
  std::erase_if(line_, [&](const std::shared_ptr<Submission>& submission) {
    if (next == ended.end() || submission != next->first) return false;
    Leave(*submission);
    ++next;
    return true;
  });
  queue_->OnWaiting(-static_cast<ptrdiff_t>(ended.size()));
  for (const auto& [submission, status] : ended) submission->sink->OnEnd(status);
}

void WaitingLine::Report(SteadyTime now) {
  if (line_.empty() || now < next_report_) return;
  next_report_ = now + kReportInterval;
  uint32_t place = head_tried_ ? 1 : 0;  // the head may come back
  for (Submission* submission : InOrder()) {
    ++place;
    auto& waiting = submission->waiting;
    if (waiting.reported_place == place || now - waiting.since < kFirstReport) continue;
    waiting.reported_place = place;
    submission->sink->OnEvent(Progress{.queue_position = place});
  }
}

void WaitingLine::EndAll(const absl::Status& why) {
  queue_->OnWaiting(-static_cast<ptrdiff_t>(line_.size()));
  for (const auto& submission : line_) submission->sink->OnEnd(why);
  line_.clear();
  of_tenant_.clear();
}

std::optional<SteadyTime> WaitingLine::oldest() const {
  std::optional<SteadyTime> oldest;
  for (const auto& submission : line_) {
    const SteadyTime arrival = submission->request.arrival;
    oldest = std::min(oldest.value_or(arrival), arrival);
  }
  return oldest;
}

SteadyTime WaitingLine::NextTurn(const Places& places) const {
  if (line_.empty()) return SteadyTime::InfiniteFuture();
  SteadyTime next = next_report_;
  const bool may_take = std::any_of(line_.begin(), line_.end(), [&](const auto& submission) {
    return places.Admits(submission->request.prompt.size());
  });
  if (may_take) next = full_.ok() ? SteadyTime::InfinitePast() : std::min(next, next_try_);
  for (const auto& submission : line_) next = std::min(next, submission->waiting.since + timeout_);
  return next;
}

}  // namespace folio::worker
