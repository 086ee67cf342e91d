// WaitingLine holds the requests that a worker has accepted and that do not run yet, because
// --max_batch others run or because the pool has no room for them.
//
// Tenants take turns (see fair_turns.h), and the request of a tenant that is due first is its next
// one (see urgency.h). That of the tenant whose turn it is is the head. The order is strict: while
// the pool has no room for the head, no other request is tried, however small it is. Otherwise
// small requests could pass a large one forever. The head is tried again when this worker gives
// pages back, and now and then, because other workers use the same pool. Requests to continue a
// lost worker's sequence pass the line, because that sequence mostly has its pages. Short prompts
// pass long ones for which there is no place (see places.h).
#ifndef FOLIO_SERVICES_WORKER_ENGINE_WAITING_LINE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_WAITING_LINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/base/fair_turns.h"
#include "services/base/steady_time.h"
#include "services/worker/engine/places.h"
#include "services/worker/engine/request_queue.h"

namespace folio::worker {

// Refused is a request for which the pool has no room now.
struct Refused {
  std::shared_ptr<Submission> submission;
  absl::Status why;
};

// Not thread-safe: the step loop's. Every change tells the queue how many wait.
class WaitingLine {
 public:
  // Requests that wait for `timeout` end with RESOURCE_EXHAUSTED. Borrows the queue.
  WaitingLine(absl::Duration timeout, RequestQueue* queue);

  // New requests go behind those that are due as early.
  void Add(std::vector<std::shared_ptr<Submission>> submissions, SteadyTime now);
  // Requests that were taken and found no room get their old places.
  void PutBack(std::vector<Refused> refused, SteadyTime now);
  // Pages were given back, so that the head may be tried at once.
  void OnRoom();
  // So many tokens were computed for a request of the tenant.
  void OnComputed(const std::string& tenant, uint64_t tokens);

  // Takes the requests to try now, for which there are places. The manager tries them in this
  // order. `asking` is true while the manager has yet to answer for some that were taken before.
  // Nothing new is tried then, because one of those may have to wait.
  std::vector<std::shared_ptr<Submission>> Take(Places places, bool asking, SteadyTime now);

  // Ends the requests for which `why` is an error, and those that have waited too long.
  void End(absl::FunctionRef<absl::Status(const Submission&)> why, SteadyTime now);
  // Tells clients their place, at most once a second.
  void Report(SteadyTime now);
  // Ends all requests.
  void EndAll(const absl::Status& why);

  // The time at which Take, End or Report next has something to do, which may be in the past.
  // There are no `places` while Take would have to wait for an answer.
  SteadyTime NextTurn(const Places& places) const;

  bool empty() const { return line_.empty(); }
  size_t size() const { return line_.size(); }
  // The arrival of the oldest request.
  std::optional<SteadyTime> oldest() const;

 private:
  void Insert(std::shared_ptr<Submission> submission);
  // It is about to leave the line.
  void Leave(const Submission& submission);
  // The place in line_ of the first request that the places admit, if so many tokens more had been
  // computed for each tenant. It is the line's end if they admit none.
  size_t Head(const Places& places, const absl::flat_hash_map<std::string, uint64_t>& more) const;
  // The requests in the order in which they would be taken if all were alike.
  std::vector<Submission*> InOrder() const;
  absl::Status LateError(size_t place) const;

  const absl::Duration timeout_;
  RequestQueue* const queue_;
  std::deque<std::shared_ptr<Submission>> line_;  // by due time
  FairTurns turns_;
  absl::flat_hash_map<std::string, uint32_t> of_tenant_;  // how many of its requests are in line_
  uint64_t last_number_ = 0;
  absl::Status full_;        // why the pool had no room for the head; OK while it may have room
  bool head_tried_ = false;  // with full_, and not put back so far
  absl::Duration pause_;     // until the head is tried again
  SteadyTime next_try_;
  SteadyTime next_report_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_WAITING_LINE_H_
