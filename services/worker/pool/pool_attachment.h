// PoolAttachment is the manager's pool as a worker uses it: it attaches to the manager, fetches the
// pool's descriptors and maps them.
#ifndef FOLIO_SERVICES_WORKER_POOL_POOL_ATTACHMENT_H_
#define FOLIO_SERVICES_WORKER_POOL_POOL_ATTACHMENT_H_

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
#include "services/base/geometry.h"
#include "services/base/unique_fd.h"
#include "services/worker/device/gpu.h"
#include "services/worker/device/pool_user.h"
#include "services/worker/link/grpc_manager_link.h"
#include "services/worker/pool/host_mapping.h"

namespace folio::worker {

// HeldPool is the descriptors of this process's part of a pool, kept while there is no manager, so
// that the memory lives on. Nothing of it is mapped.
struct HeldPool {
  std::string pool_id;  // empty if nothing is held
  UniqueFd pool;
  UniqueFd score_board;
  UniqueFd swap;
};

// Attacher is the worker that attaches.
struct Attacher {
  std::string name;
  std::string pool = "";  // of the manager, by its name; empty for its only one
  // The session that it had before, if none of its processes has that session's pages mapped any
  // more. The manager then takes the pages back at once, and lets the worker claim its sequences.
  std::optional<SessionOptions> previous = std::nullopt;
  // The remains of that session's pool, or null. It is emptied when no manager wants it. Borrowed.
  HeldPool* held = nullptr;
  // Called when no manager wants it, so that the other ranks let theirs go too. May be empty.
  std::function<absl::Status()> drop = nullptr;
};

// `view()` must not be used after this is destroyed.
class PoolAttachment {
 public:
  // Calls Attach and then Fetch. The manager's refusal passes through: FAILED_PRECONDITION names
  // the field that differs. UNAVAILABLE when the manager cannot be reached or does not answer. In a
  // worker of several ranks only the leader attaches.
  static absl::StatusOr<std::unique_ptr<PoolAttachment>> Attach(
      const std::shared_ptr<grpc::Channel>& channel, const Attacher& attacher,
      const PoolUser& user);
  // Fetches this rank's descriptors from the export socket, with the rank's token in the answer
  // that the leader got. UNAVAILABLE also if the attachment has ended meanwhile, because its lease
  // ran out or a worker of another model has attached.
  // Brings `held` if the manager wants it, which is empty afterwards.
  static absl::StatusOr<std::unique_ptr<PoolAttachment>> Fetch(
      const folio::v1::AttachResponse& response, const PoolUser& user, HeldPool* held = nullptr);

  // Unmaps everything and closes the connection. Returns what the next manager may want.
  static HeldPool End(std::unique_ptr<PoolAttachment> attachment);

  // Addresses on the device that computes.
  const kernels::PoolView& view() const { return view_; }
  const CacheGeometry& geometry() const { return geometry_; }  // of all ranks
  const folio::v1::AttachResponse& response() const { return response_; }
  const SessionOptions& session() const { return session_; }

 private:
  PoolAttachment(folio::v1::AttachResponse response, const CacheGeometry& geometry,
                 UniqueFd connection, SharedMapping board)
      : response_(std::move(response)),
        geometry_(geometry),
        connection_(std::move(connection)),
        board_(std::move(board)),
        session_{response_.worker_id(), response_.session_token(),
                 absl::Milliseconds(response_.lease_ttl_ms()), geometry.num_layers} {}
  absl::Status MapSwap(int fd, const CacheGeometry& own);
  absl::Status MapPages(int fd, size_t bytes, const PoolUser& user);

  folio::v1::AttachResponse response_;
  CacheGeometry geometry_;
  // To the export socket. It is closed after the memory below has been unmapped, which the manager
  // may take for the proof that this process cannot write it.
  UniqueFd connection_;
  HeldPool descriptors_;  // empty unless the manager's pool outlives it
  SharedMapping board_;
  std::optional<SharedMapping> swap_;
  // One of the two is set. GpuPages also has the GPU's address of the board.
  // It is destroyed before what it maps for the GPU.
  std::optional<SharedMapping> host_pages_;
  std::unique_ptr<GpuPages> gpu_pages_;
  kernels::PoolView view_;
  SessionOptions session_;
};

// Attaches, and retries while the manager is unavailable: see RetryWhileUnavailable.
absl::StatusOr<std::unique_ptr<PoolAttachment>> AttachWithRetry(
    const std::shared_ptr<grpc::Channel>& channel, const Attacher& attacher, const PoolUser& user,
    absl::Duration timeout, const std::function<bool()>& stop);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_POOL_POOL_ATTACHMENT_H_
