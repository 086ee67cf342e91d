// The pool, borrowed: attaches to the manager, fetches the descriptors, maps them.
#ifndef FOLIO_SERVICES_WORKER_POOL_ATTACHMENT_H_
#define FOLIO_SERVICES_WORKER_POOL_ATTACHMENT_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"
#include "kernels/views.h"
#include "services/common/geometry.h"
#include "services/model/shard.h"
#include "services/worker/grpc_manager_link.h"

namespace folio::worker {

// One shared mapping; unmapped on destruction.
class SharedMapping {
 public:
  // `what` is for messages. FAILED_PRECONDITION: shorter than `bytes`, or not sealed against
  // shrinking, so that a touch could kill us.
  static absl::StatusOr<SharedMapping> Map(int fd, size_t bytes, const std::string& what);
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&&) = delete;
  ~SharedMapping();

  std::byte* data() const { return data_; }
  // Transparent ones, before the first touch: whoever touches a page first decides what it is.
  void AskForHugePages();

 private:
  SharedMapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  size_t bytes_;
};

// Nothing may use `view()` once this is destroyed.
class PoolAttachment {
 public:
  // Attach, then the export socket. The manager's refusal passes through (FAILED_PRECONDITION
  // names the field that differs); UNAVAILABLE when it cannot be reached. `shard`: this rank's, of
  // a worker that has several; its leader attaches.
  static absl::StatusOr<std::unique_ptr<PoolAttachment>> Attach(
      const std::shared_ptr<grpc::Channel>& channel, const std::string& worker_name,
      const folio::v1::ModelLayout& layout, const model::Shard* shard = nullptr);
  // The export socket alone, with the rank's own token from what the leader was answered.
  static absl::StatusOr<std::unique_ptr<PoolAttachment>> Fetch(
      const folio::v1::AttachResponse& response, const folio::v1::ModelLayout& layout,
      const model::Shard* shard);

  const kernels::PoolView& view() const { return view_; }
  const CacheGeometry& geometry() const { return geometry_; }  // of all ranks
  const folio::v1::AttachResponse& response() const { return response_; }
  const SessionOptions& session() const { return session_; }

 private:
  PoolAttachment(SharedMapping pool, SharedMapping board, folio::v1::AttachResponse response,
                 const CacheGeometry& geometry, const model::Shard* shard);

  SharedMapping pool_, board_;
  folio::v1::AttachResponse response_;
  CacheGeometry geometry_;
  kernels::PoolView view_;
  SessionOptions session_;
};

// Attach again and again, with a growing pause and a log line, while the manager cannot be reached;
// any other error ends it, and so does `timeout` or `stop` (asked before each try).
absl::StatusOr<std::unique_ptr<PoolAttachment>> AttachWithRetry(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& worker_name,
    const folio::v1::ModelLayout& layout, absl::Duration timeout, const std::function<bool()>& stop,
    const model::Shard* shard = nullptr);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_POOL_ATTACHMENT_H_
