// WorkerSet is the workers behind the gateway. It watches which of them serve and what model they
// have, counts the requests of each, and chooses one for a request.
#ifndef FOLIO_SERVICES_GATEWAY_WORKERS_WORKER_SET_H_
#define FOLIO_SERVICES_GATEWAY_WORKERS_WORKER_SET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/client/call.h"
#include "services/client/streams.h"
#include "services/client/worker_calls.h"

namespace folio::gateway {

struct WorkerSetOptions {
  std::vector<std::string> workers;  // addresses, of one manager
  std::vector<std::string> standby;  // asked only if none of the others serves
  std::vector<std::string> aliases;  // names of the model; empty for the workers' own
  absl::Duration health_interval = absl::Seconds(1);
  size_t connections = 2;                 // to each worker, for streams
  std::optional<client::TlsOptions> tls;  // encrypts connections by TCP
  std::string token_file;                 // with the token of calls; empty for none
};

struct WorkerView {
  std::string address;
  bool standby = false;
  bool serving = false;
  uint32_t running = 0;
  std::string model;  // empty until it has answered
  uint32_t context_length = 0;
  uint32_t layers = 0;
  uint32_t page_tokens = 0;
  int64_t since = 0;  // Unix seconds when it was first seen to serve
};

// Thread-safe.
class WorkerSet {
 public:
  // Waits until each worker has answered or failed to answer once. A worker that is not there yet
  // is not an error. INVALID_ARGUMENT names an address that is none.
  static absl::StatusOr<std::unique_ptr<WorkerSet>> Connect(const WorkerSetOptions& options);
  // All leases must have been returned. Waits until all generations have ended.
  ~WorkerSet();
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  // Lease is a place for `requests` requests at a worker. Move-only.
  class Lease {
   public:
    Lease(WorkerSet* set, size_t worker, uint32_t requests);
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    size_t worker() const { return worker_; }

   private:
    WorkerSet* set_;
    const size_t worker_;
    const uint32_t requests_;
  };

  // NOT_FOUND if no worker has the model, whose name may be empty for any. UNAVAILABLE if none that
  // may have it serves. For `key` see ChooseWorker.
  absl::StatusOr<Lease> Choose(absl::string_view model, absl::string_view key, uint32_t requests);
  // A stream of that worker was lost. It gets no requests until it is seen to serve again.
  void NoteLoss(size_t worker);

  // Waits until all leases are returned.
  void AwaitAll();

  // Whether at least one serves.
  bool serving() const;
  std::vector<WorkerView> View() const;
  // The names of a worker's model, and the first of them.
  std::vector<std::string> ModelNames(const WorkerView& worker) const;
  std::string ModelName(size_t worker) const;
  std::string Address(size_t worker) const;
  // By the index of a lease's worker.
  client::Streams& streams();
  client::WorkerCalls& calls(size_t worker);

 private:
  class State;
  explicit WorkerSet(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_WORKERS_WORKER_SET_H_
