// The pool, borrowed: attaches to the manager, fetches the descriptors, maps them.
#ifndef FOLIO_SERVICES_WORKER_POOL_ATTACHMENT_H_
#define FOLIO_SERVICES_WORKER_POOL_ATTACHMENT_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"
#include "kernels/views.h"
#include "services/common/geometry.h"
#include "services/worker/gpu.h"
#include "services/worker/grpc_manager_link.h"
#include "services/worker/host_mapping.h"
#include "services/worker/pool_user.h"

namespace folio::worker {

// Nothing may use `view()` once this is destroyed.
class PoolAttachment {
 public:
  // Attach, then the export socket. The manager's refusal passes through (FAILED_PRECONDITION
  // names the field that differs); UNAVAILABLE when it cannot be reached. Of a worker of several
  // ranks its leader attaches.
  static absl::StatusOr<std::unique_ptr<PoolAttachment>> Attach(
      const std::shared_ptr<grpc::Channel>& channel, const std::string& worker_name,
      const PoolUser& user);
  // The export socket alone, with the rank's own token from what the leader was answered.
  static absl::StatusOr<std::unique_ptr<PoolAttachment>> Fetch(
      const folio::v1::AttachResponse& response, const PoolUser& user);

  // Addresses of whoever computes: of a GPU, where one does.
  const kernels::PoolView& view() const { return view_; }
  const CacheGeometry& geometry() const { return geometry_; }  // of all ranks
  const folio::v1::AttachResponse& response() const { return response_; }
  const SessionOptions& session() const { return session_; }

 private:
  PoolAttachment(folio::v1::AttachResponse response, const CacheGeometry& geometry,
                 SharedMapping board)
      : response_(std::move(response)),
        geometry_(geometry),
        board_(std::move(board)),
        session_{response_.worker_id(), response_.session_token(),
                 absl::Milliseconds(response_.lease_ttl_ms())} {}
  absl::Status MapPages(int fd, size_t bytes, const PoolUser& user);

  folio::v1::AttachResponse response_;
  CacheGeometry geometry_;
  SharedMapping board_;
  std::optional<SharedMapping> host_pages_;  // these or those
  std::unique_ptr<GpuPages> gpu_pages_;      // has the board too
  kernels::PoolView view_;
  SessionOptions session_;
};

// Attach as RetryWhileUnavailable does it.
absl::StatusOr<std::unique_ptr<PoolAttachment>> AttachWithRetry(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& worker_name,
    const PoolUser& user, absl::Duration timeout, const std::function<bool()>& stop);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_POOL_ATTACHMENT_H_
