// AttachedWorker is what the registry knows of one worker, from Attach until its pages have come
// back. WorkerReport is what it tells operators.
#ifndef FOLIO_SERVICES_MANAGER_ATTACHED_WORKER_H_
#define FOLIO_SERVICES_MANAGER_ATTACHED_WORKER_H_

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"

namespace folio::manager {

// A worker of several tensor-parallel ranks has a process for each rank.
struct RankProcess {
  std::string export_token;  // empty once it is used
  bool fetched = false;      // it has the pool's descriptors
  pid_t pid = 0;             // 0 if it has not fetched, or is in another PID namespace
  uint64_t started = 0;      // see StartOfProcess
  bool ended = false;
};

struct AttachedWorker {
  std::string name;
  std::vector<RankProcess> ranks;
  // Opens one session, and proves later that this session was the worker's.
  std::string session_token;
  bool session_began = false;
  std::function<void()> cancel;   // ends the session; empty without one
  bool keeps_connection = false;  // see ExportPeer
  bool maps_swap = false;         // its processes map swap memory
  bool brings_pool = false;       // it was asked to bring the pool's descriptors
  bool fenced = false;
  absl::string_view why_fenced;  // a constant sentence, for the log
  SteadyTime silent_since;       // of a fenced worker: since then none of its messages counted
  SteadyTime fenced_at;
  bool kill_tried = false;  // once is enough: the signal stays pending
  absl::Status kill_error;  // of the last process that could not be killed

  pid_t pid() const { return ranks[0].pid; }
  // No process can write its pages any more. Precondition: the worker is fenced, so that no other
  // process can fetch descriptors.
  bool gone() const {
    const auto writes = [](const RankProcess& rank) { return rank.fetched && !rank.ended; };
    return std::none_of(ranks.begin(), ranks.end(), writes);
  }
};

struct WorkerReport {
  WorkerId id;
  std::string name;
  std::vector<RankProcess> ranks;  // without their tokens
  bool fenced = false;
  bool draining = false;  // an operator has it get no new sequences
  // The rest is of a fenced worker.
  absl::string_view why_fenced;
  absl::Duration fenced_for;
  absl::Duration silent_for;
  PageCount blocked;                      // see Coordinator::PagesBlockedBy
  std::optional<absl::Duration> kill_in;  // if the manager is going to kill its processes
  bool kill_tried = false;
  absl::Status kill_error;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ATTACHED_WORKER_H_
