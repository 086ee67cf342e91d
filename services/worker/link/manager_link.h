// ManagerLink is the step loop's view of the session with the manager. There are two
// implementations: one over gRPC, and one for benchmarks and tests that calls a coordinator in the
// same process.
#ifndef FOLIO_SERVICES_WORKER_LINK_MANAGER_LINK_H_
#define FOLIO_SERVICES_WORKER_LINK_MANAGER_LINK_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"

namespace folio::worker {

// The link numbers the requests, because it also sends heartbeats of its own: the lease must not
// expire while a long step runs. Replies come in the order of the requests.
//
// Send, TryReceive and Receive belong to one thread, the step loop's. Send does not wait for the
// manager. Wake and status are thread-safe.
class ManagerLink {
 public:
  virtual ~ManagerLink() = default;

  // Queues a request, sets its `step` to the next number and returns that number, which the reply
  // carries too. Does nothing after a failure.
  virtual uint64_t Send(SessionRequest request) = 0;
  // The next reply if one has arrived.
  virtual std::optional<SessionReply> TryReceive() = 0;
  // Waits for the next reply until `deadline`, until Wake, or until the link fails.
  virtual std::optional<SessionReply> Receive(SteadyTime deadline) = 0;
  // Ends the present call of Receive, or the next one if none is under way.
  virtual void Wake() = 0;
  // OK while the session lives; afterwards the reason why it ended.
  virtual absl::Status status() const = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_LINK_MANAGER_LINK_H_
