// A worker's line to the manager: the step loop's view of the Session stream. Two implementations:
// over gRPC, and (for benchmarks and tests) straight into a coordinator in the same process.
#ifndef FOLIO_SERVICES_WORKER_MANAGER_LINK_H_
#define FOLIO_SERVICES_WORKER_MANAGER_LINK_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"

namespace folio::worker {

// The link owns the numbering of requests, because it also sends heartbeats of its own: the lease
// must not lapse while a long step runs. Replies come in the order of the requests; those that
// answer heartbeats and say nothing are swallowed.
//
// Send, TryReceive and Receive are for one thread, the step loop's; sending does not wait for the
// manager. Wake and status are thread-safe.
class ManagerLink {
 public:
  virtual ~ManagerLink() = default;

  // Queues a request and returns its number (what `step` says is overwritten); the reply carries
  // the same one. After a failure it does nothing.
  virtual uint64_t Send(folio::v1::SessionRequest request) = 0;
  // The next reply if one has arrived.
  virtual std::optional<folio::v1::SessionReply> TryReceive() = 0;
  // Waits for the next reply: until `deadline`, until Wake, or until the link fails.
  virtual std::optional<folio::v1::SessionReply> Receive(absl::Time deadline) = 0;
  // Ends the present call of Receive, or the next one if none is under way.
  virtual void Wake() = 0;
  // OK while the stream lives; afterwards why it ended.
  virtual absl::Status status() const = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_MANAGER_LINK_H_
