#include "services/worker/pool_attachment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/common/grpc_status.h"
#include "services/common/logging.h"
#include "services/common/pool_socket.h"
#include "services/common/protocol.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

absl::Status Mismatch(absl::string_view field, uint64_t said, uint64_t wanted) {
  return absl::FailedPreconditionError(absl::StrCat("the manager's pool has ", field, " ", said,
                                                    ", this model's layout makes it ", wanted));
}

CacheGeometry GeometryOf(const v1::ModelLayout& layout, uint32_t kv_heads) {
  return {.num_layers = layout.num_layers(),
          .num_kv_heads = kv_heads,
          .head_dim = layout.head_dim(),
          .page_tokens = layout.page_tokens()};
}

absl::Status CheckAnswer(const v1::AttachResponse& response, const v1::ModelLayout& layout) {
  const v1::PoolLayout& pool = response.pool();
  const CacheGeometry geometry = GeometryOf(layout, layout.num_kv_heads());
  const int ranks = std::max(1, layout.rank_kv_heads_size());
  if (response.rank_export_tokens_size() != ranks - 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the manager gave ", response.rank_export_tokens_size() + 1,
                     " export tokens for ", ranks, " ranks; is it of this version?"));
  }
  uint64_t page_bytes = ranks == 1 ? geometry.page_bytes() : 0;
  for (const uint32_t heads : layout.rank_kv_heads()) {
    page_bytes += GeometryOf(layout, heads).page_bytes();
  }
  if (pool.page_bytes() != page_bytes) return Mismatch("page_bytes", pool.page_bytes(), page_bytes);
  const uint64_t pool_bytes = uint64_t{pool.num_pages()} * page_bytes;
  if (pool.pool_bytes() != pool_bytes) return Mismatch("pool_bytes", pool.pool_bytes(), pool_bytes);
  const uint64_t board_bytes = geometry.score_board_floats(pool.num_pages()) * sizeof(float);
  if (pool.score_board_bytes() != board_bytes) {
    return Mismatch("score_board_bytes", pool.score_board_bytes(), board_bytes);
  }
  for (const v1::PageMemory& memory : pool.rank_memory()) {
    if (memory.device_uuid().empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the manager's pages are in memory of ", memory.device_uuid(),
                     " and this worker computes on the CPU; start the manager with --device=cpu"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SharedMapping> SharedMapping::Map(int fd, size_t bytes, const std::string& what) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("fstat of ", what));
  if (static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, " is ", info.st_size, " bytes long, the manager promised ", bytes));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::FailedPreconditionError(absl::StrCat(what, " is not sealed against shrinking"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", bytes, " bytes of ", what));
  }
  return SharedMapping(static_cast<std::byte*>(data), bytes);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

void SharedMapping::AskForHugePages() {
  // It only makes things faster: a kernel without them may refuse.
  (void)madvise(data_, bytes_, MADV_HUGEPAGE);
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

PoolAttachment::PoolAttachment(SharedMapping pool, SharedMapping board, v1::AttachResponse response,
                               const CacheGeometry& geometry, const model::Shard* shard)
    : pool_(std::move(pool)),
      board_(std::move(board)),
      response_(std::move(response)),
      geometry_(geometry),
      session_{response_.worker_id(), response_.session_token(),
               absl::Milliseconds(response_.lease_ttl_ms())} {
  auto* scores = reinterpret_cast<float*>(board_.data());
  if (shard == nullptr) {
    view_ = {pool_.data(), scores, response_.pool().num_pages(), geometry};
    return;
  }
  CacheGeometry own = geometry;
  own.num_kv_heads = shard->kv_heads.count;
  view_ = model::ShardPool(*shard, pool_.data(), scores, response_.pool().num_pages(), own,
                           geometry.num_kv_heads);
}

absl::StatusOr<std::unique_ptr<PoolAttachment>> PoolAttachment::Attach(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& worker_name,
    const v1::ModelLayout& layout, const model::Shard* shard) {
  v1::AttachRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_worker_name(worker_name);
  *request.mutable_layout() = layout;
  request.set_device(v1::DEVICE_KIND_CPU);
  v1::AttachResponse response;
  grpc::ClientContext context;
  // Carving a large pool of huge pages takes the manager a while.
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  const auto stub = v1::KvManager::NewStub(channel);
  if (absl::Status status = FromGrpcStatus(stub->Attach(&context, request, &response));
      !status.ok()) {
    return status;
  }
  return Fetch(response, layout, shard);
}

absl::StatusOr<std::unique_ptr<PoolAttachment>> PoolAttachment::Fetch(
    const v1::AttachResponse& response, const v1::ModelLayout& layout, const model::Shard* shard) {
  if (absl::Status status = CheckAnswer(response, layout); !status.ok()) return status;
  const uint32_t rank = shard == nullptr ? 0 : shard->rank.value();
  const std::string& token =
      rank == 0 ? response.export_token() : response.rank_export_tokens(static_cast<int>(rank) - 1);
  auto descriptors = FetchPoolDescriptors(response.export_socket(), token);
  if (!descriptors.ok()) return descriptors.status();
  const uint32_t heads = shard == nullptr ? layout.num_kv_heads() : shard->kv_heads.count;
  const size_t bytes = response.pool().num_pages() * GeometryOf(layout, heads).page_bytes();
  auto pool = SharedMapping::Map(descriptors->pool.get(), bytes, "the pool");
  if (!pool.ok()) return pool.status();
  pool->AskForHugePages();
  auto board = SharedMapping::Map(descriptors->score_board.get(),
                                  response.pool().score_board_bytes(), "the score board");
  if (!board.ok()) return board.status();
  return std::unique_ptr<PoolAttachment>(
      new PoolAttachment(*std::move(pool), *std::move(board), response,
                         GeometryOf(layout, layout.num_kv_heads()), shard));
}

absl::StatusOr<std::unique_ptr<PoolAttachment>> AttachWithRetry(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& worker_name,
    const v1::ModelLayout& layout, absl::Duration timeout, const std::function<bool()>& stop,
    const model::Shard* shard) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::Duration pause = absl::Milliseconds(100);
  for (;;) {
    if (stop()) return absl::CancelledError("asked to stop");
    auto attachment = PoolAttachment::Attach(channel, worker_name, layout, shard);
    if (attachment.ok() || !absl::IsUnavailable(attachment.status())) return attachment;
    if (absl::Now() + pause >= deadline) {
      return absl::UnavailableError(absl::StrCat("the manager could not be reached within ",
                                                 absl::FormatDuration(timeout), ": ",
                                                 attachment.status().message()));
    }
    log::Warning("the manager cannot be reached, trying again",
                 {{"error", attachment.status().message()}, {"pause", pause}});
    // In short pieces, so that `stop` is heard; it may say so only once.
    for (const absl::Time next = absl::Now() + pause; absl::Now() < next;) {
      if (stop()) return absl::CancelledError("asked to stop");
      absl::SleepFor(absl::Milliseconds(50));
    }
    pause = std::min(2 * pause, absl::Seconds(3));
  }
}

}  // namespace folio::worker
