// AdminClient is the C++ client of a manager, for operators' tools. It shows pools and their pages,
// sequences and their block tables, workers, and what happens. The messages are those of
// proto/folio/v1/admin.proto.
#ifndef FOLIO_SERVICES_CLIENT_ADMIN_CLIENT_H_
#define FOLIO_SERVICES_CLIENT_ADMIN_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "folio/v1/admin.pb.h"
#include "services/client/call.h"

namespace folio::client {

// EventStream is what happened in a manager, and what happens. One thread may call Next and status,
// and any thread may call Cancel. Destroying it before its end cancels it. It may outlive the
// client.
class EventStream {
 public:
  EventStream(EventStream&& other) noexcept;
  EventStream& operator=(EventStream&& other) noexcept;
  ~EventStream();

  // Waits for the next event, or for the news that events were lost. Returns nothing after the
  // last.
  std::optional<folio::v1::WatchEventsResponse> Next();
  // Valid after Next has returned nothing. OK if the request did not follow, or if the manager has
  // ended in order. UNAVAILABLE if the manager is lost. The request of a later stream may continue
  // with `after`, unless the manager has been started again, which its `boot_id` tells.
  absl::Status status() const;
  // Next then returns nothing, and the status is CANCELLED.
  void Cancel();

 private:
  friend class AdminClient;
  class State;
  explicit EventStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Thread-safe, and calls run in parallel.
class AdminClient {
 public:
  // `address` is "unix:/path" or "host:port". UNAVAILABLE names it and says why nothing answers.
  // Calls to an address that is for workers alone end with UNIMPLEMENTED, which says so.
  static absl::StatusOr<std::unique_ptr<AdminClient>> Connect(absl::string_view address,
                                                              const ConnectOptions& options = {});
  ~AdminClient();

  // Empty until the first worker has attached.
  absl::StatusOr<folio::v1::ListPoolsResponse> ListPools(const CallOptions& options = {});
  absl::StatusOr<folio::v1::ListSequencesResponse> ListSequences(const CallOptions& options = {});
  // NOT_FOUND if no such sequence is open.
  absl::StatusOr<folio::v1::GetSequenceResponse> GetSequence(uint64_t sequence_id,
                                                             const CallOptions& options = {});
  // The tokens or blocks that a policy would evict from a sequence if it had to decide now. Without
  // `cache` it is the sequence's own policy. NOT_FOUND as above. FAILED_PRECONDITION while the
  // prompt is being prefilled, or if the policy reads scores that the sequence's worker does not
  // write.
  absl::StatusOr<folio::v1::ExplainEvictionResponse> ExplainEviction(
      const folio::v1::ExplainEvictionRequest& request, const CallOptions& options = {});
  absl::StatusOr<folio::v1::GetManagerResponse> GetManager(const CallOptions& options = {});
  // Those with a lease, and the fenced ones of which something is left.
  absl::StatusOr<folio::v1::ListWorkersResponse> ListWorkers(const CallOptions& options = {});
  // The tenants that have sequences, or requests that wait for pages.
  absl::StatusOr<folio::v1::ListTenantsResponse> ListTenants(const CallOptions& options = {});
  // The owner of each page, as runs of neighbours. RESOURCE_EXHAUSTED: ask again, because the
  // manager answers one such call at a time.
  absl::StatusOr<std::vector<folio::v1::PageRun>> ListPages(
      const folio::v1::ListPagesRequest& request, const CallOptions& options = {});
  // RESOURCE_EXHAUSTED if as many streams are open as the manager serves, and INVALID_ARGUMENT for
  // an unknown kind or an `after` that the manager has not reached: both as the stream's status.
  EventStream WatchEvents(const folio::v1::WatchEventsRequest& request,
                          const CallOptions& options = {});
  // False while the manager runs but accepts no requests (draining).
  absl::StatusOr<bool> IsServing(const CallOptions& options = {});

 private:
  friend class Steering;
  class State;
  explicit AdminClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_ADMIN_CLIENT_H_
