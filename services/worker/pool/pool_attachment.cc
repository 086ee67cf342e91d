#include "services/worker/pool/pool_attachment.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/grpc/grpc_deadline.h"
#include "services/grpc/grpc_status.h"
#include "services/runtime/pool_socket.h"
#include "services/wire/layout.h"
#include "services/wire/protocol_versions.h"
#include "services/worker/link/manager_channel.h"
#include "services/worker/pool/gpu_choice.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

// Allocating a large pool of huge pages takes the manager a while.
constexpr absl::Duration kAttachTimeout = absl::Seconds(30);

absl::Status Mismatch(absl::string_view field, uint64_t said, uint64_t wanted) {
  return absl::FailedPreconditionError(absl::StrCat("the manager's pool has ", field, " ", said,
                                                    ", this model's layout makes it ", wanted));
}

// Checks that the memory of the ranks' pages is of the right kind and large enough.
absl::Status CheckMemory(const v1::PoolLayout& pool, uint32_t rank, size_t bytes,
                         const PoolUser& user) {
  for (const v1::PageMemory& memory : pool.rank_memory()) {
    // Each rank checks its own GPU.
    if (user.gpu != nullptr && &memory != &pool.rank_memory(static_cast<int>(rank))) continue;
    absl::Status status = CheckPagesAreOn(user.gpu, memory.device_uuid());
    if (!status.ok()) return status;
    if (user.gpu != nullptr && memory.bytes() < bytes) {
      return Mismatch("rank_memory.bytes", memory.bytes(), bytes);
    }
  }
  if (user.gpu == nullptr || static_cast<int>(rank) < pool.rank_memory_size()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the manager does not say what memory rank ", rank, "'s pages are in"));
}

absl::Status CheckAnswer(const v1::AttachResponse& response, const v1::ModelLayout& layout) {
  const v1::PoolLayout& pool = response.pool();
  const std::vector<CacheGeometry> geometries = wire::RankGeometries(layout);
  const int ranks = static_cast<int>(geometries.size());
  if (response.rank_export_tokens_size() != ranks - 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the manager gave ", response.rank_export_tokens_size() + 1,
                     " export tokens for ", ranks, " ranks; is it of this version?"));
  }
  uint64_t page_bytes = 0;
  for (const CacheGeometry& rank : geometries) page_bytes += rank.page_bytes();
  if (pool.page_bytes() != page_bytes) return Mismatch("page_bytes", pool.page_bytes(), page_bytes);
  const uint64_t pool_bytes = uint64_t{pool.num_pages()} * page_bytes;
  if (pool.pool_bytes() != pool_bytes) return Mismatch("pool_bytes", pool.pool_bytes(), pool_bytes);
  const uint64_t board_bytes =
      wire::GeometryOf(layout).score_board_floats(pool.num_pages()) * sizeof(float);
  if (pool.score_board_bytes() != board_bytes) {
    return Mismatch("score_board_bytes", pool.score_board_bytes(), board_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PoolAttachment::MapSwap(int fd, const CacheGeometry& own) {
  const uint32_t slots = response_.pool().swap_slots();
  if (slots == 0) return absl::OkStatus();
  auto mapped = SharedMapping::Map(fd, slots * own.swap_slot_bytes(), "the swap memory");
  if (!mapped.ok()) return mapped.status();
  mapped->AskForHugePages();
  swap_.emplace(*std::move(mapped));
  return absl::OkStatus();
}

absl::Status PoolAttachment::MapPages(int fd, size_t bytes, const PoolUser& user) {
  std::byte* pages = nullptr;
  auto* scores = reinterpret_cast<float*>(board_.data());
  if (user.gpu == nullptr) {
    auto mapped = SharedMapping::Map(fd, bytes, "the pool");
    if (!mapped.ok()) return mapped.status();
    mapped->AskForHugePages();
    host_pages_.emplace(*std::move(mapped));
    pages = host_pages_->data();
  } else {
    const int rank = user.shard == nullptr ? 0 : static_cast<int>(user.shard->rank.value());
    absl::Span<std::byte> swap;
    if (swap_.has_value()) swap = {swap_->data(), swap_->bytes()};
    auto imported = user.gpu->Import(fd, response_.pool().rank_memory(rank).bytes(),
                                     {board_.data(), board_.bytes()}, swap);
    if (!imported.ok()) return imported.status();
    gpu_pages_ = *std::move(imported);
    pages = gpu_pages_->pages();
    scores = gpu_pages_->scores();
  }
  const uint32_t num_pages = response_.pool().num_pages();
  if (user.shard == nullptr) {
    view_ = {pages, scores, num_pages, geometry_};
  } else {
    CacheGeometry own = geometry_;
    own.num_kv_heads = user.shard->kv_heads.count;
    view_ = model::ShardPool(*user.shard, pages, scores, num_pages, own, geometry_.num_kv_heads);
  }
  if (swap_.has_value()) {
    view_.swap = {swap_->data(), response_.pool().swap_slots(),
                  reinterpret_cast<float*>(board_.data())};
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PoolAttachment>> PoolAttachment::Attach(
    const std::shared_ptr<grpc::Channel>& channel, const Attacher& attacher, const PoolUser& user) {
  v1::AttachRequest request;
  wire::SetVersions({}, &request);
  request.set_worker_name(attacher.name);
  request.set_pool(attacher.pool);
  if (attacher.previous.has_value()) {
    request.mutable_previous_session()->set_worker_id(attacher.previous->worker_id);
    request.mutable_previous_session()->set_session_token(attacher.previous->session_token);
  }
  *request.mutable_layout() = *user.layout;
  request.set_keeps_export_connection(true);
  request.set_maps_swap_memory(true);
  HeldPool none;
  HeldPool& held = attacher.held == nullptr ? none : *attacher.held;
  request.set_held_pool_id(held.pool_id);
  request.set_device(user.gpu == nullptr ? v1::DEVICE_KIND_CPU : v1::DEVICE_KIND_CUDA);
  v1::AttachResponse response;
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(SteadyNow() + kAttachTimeout));
  const auto stub = v1::KvManager::NewStub(channel);
  absl::Status status = FromGrpcStatus(stub->Attach(&context, request, &response));
  if (absl::IsDeadlineExceeded(status)) {
    // It is stopped or stalled, and may answer later.
    return absl::UnavailableError(
        absl::StrCat("the manager has not answered for ", absl::FormatDuration(kAttachTimeout)));
  }
  // It may be this memory that the manager lacks.
  if (absl::IsResourceExhausted(status) && !held.pool_id.empty()) {
    held = {};
    absl::Status dropped = attacher.drop ? attacher.drop() : absl::OkStatus();
    if (!dropped.ok()) return dropped;
  }
  if (status.ok()) {
    const auto version = wire::ChosenVersion({}, response);
    status = version.ok() ? wire::CheckKnowsWindows(*version, *user.layout) : version.status();
  }
  if (!status.ok()) return status;
  if (!attacher.pool.empty() && response.pool_name() != attacher.pool) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--pool=", attacher.pool, ": the manager knows no names of pools; use a newer one"));
  }
  return Fetch(response, user, &held);
}

HeldPool PoolAttachment::End(std::unique_ptr<PoolAttachment> attachment) {
  HeldPool held = std::move(attachment->descriptors_);
  attachment.reset();
  return held;
}

absl::StatusOr<std::unique_ptr<PoolAttachment>> PoolAttachment::Fetch(
    const v1::AttachResponse& response, const PoolUser& user, HeldPool* held) {
  const v1::ModelLayout& layout = *user.layout;
  const uint32_t rank = user.shard == nullptr ? 0 : user.shard->rank.value();
  CacheGeometry own = wire::GeometryOf(layout);
  if (user.shard != nullptr) own.num_kv_heads = user.shard->kv_heads.count;
  const size_t bytes = response.pool().num_pages() * own.page_bytes();
  absl::Status status = CheckAnswer(response, layout);
  if (status.ok()) status = CheckMemory(response.pool(), rank, bytes, user);
  if (!status.ok()) return status;
  const std::string& token =
      rank == 0 ? response.export_token() : response.rank_export_tokens(static_cast<int>(rank) - 1);
  std::vector<int> brought;
  if (response.brings_pool() && held != nullptr && held->pool.valid()) {
    brought = {held->pool.get(), held->score_board.get()};
    if (held->swap.valid()) brought.push_back(held->swap.get());
  }
  auto descriptors = FetchPoolDescriptors(response.export_socket(), token, brought);
  if (absl::IsNotFound(descriptors.status())) {
    // The attachment ended before its pages were fetched. Another one may be in time.
    return absl::UnavailableError(descriptors.status().message());
  }
  if (!descriptors.ok()) return descriptors.status();
  if (held != nullptr) *held = {};
  auto board = SharedMapping::Map(descriptors->score_board.get(),
                                  response.pool().score_board_bytes(), "the score board");
  if (!board.ok()) return board.status();
  std::unique_ptr<PoolAttachment> attachment(new PoolAttachment(
      response, wire::GeometryOf(layout), std::move(descriptors->connection), *std::move(board)));
  status = attachment->MapSwap(descriptors->swap.get(), own);
  if (status.ok()) status = attachment->MapPages(descriptors->pool.get(), bytes, user);
  if (!status.ok()) return status;
  if (!response.pool().pool_id().empty()) {
    attachment->descriptors_ = {response.pool().pool_id(), std::move(descriptors->pool),
                                std::move(descriptors->score_board), std::move(descriptors->swap)};
  }
  return attachment;
}

absl::StatusOr<std::unique_ptr<PoolAttachment>> AttachWithRetry(
    const std::shared_ptr<grpc::Channel>& channel, const Attacher& attacher, const PoolUser& user,
    absl::Duration timeout, const std::function<bool()>& stop) {
  std::unique_ptr<PoolAttachment> attachment;
  absl::Status status = RetryWhileUnavailable(*channel, timeout, stop, [&] {
    auto attached = PoolAttachment::Attach(channel, attacher, user);
    if (!attached.ok()) return attached.status();
    attachment = *std::move(attached);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return attachment;
}

}  // namespace folio::worker
