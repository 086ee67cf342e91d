// A worker's line to the manager: the step loop's view of the Session stream. Two implementations:
// over gRPC, and (for benchmarks and tests) straight into a coordinator in the same process.
#ifndef FOLIO_SERVICES_WORKER_MANAGER_LINK_H_
#define FOLIO_SERVICES_WORKER_MANAGER_LINK_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"

namespace folio::worker {

// Send and TryReceive/Receive are for one thread, the step loop's; sending does not wait for the
// manager.
class ManagerLink {
 public:
  virtual ~ManagerLink() = default;

  // Queues a request; `request.step` must grow. After a failure it does nothing.
  virtual void Send(folio::v1::SessionRequest request) = 0;
  // The next reply if one has arrived.
  virtual std::optional<folio::v1::SessionReply> TryReceive() = 0;
  // Waits for the next reply, until `deadline` or until the link fails.
  virtual std::optional<folio::v1::SessionReply> Receive(absl::Time deadline) = 0;
  // OK while the stream lives; afterwards why it ended. Thread-safe.
  virtual absl::Status status() const = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_MANAGER_LINK_H_
