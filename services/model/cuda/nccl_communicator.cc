#include "services/model/cuda/nccl_communicator.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/model/cuda/cuda_transformer.h"
#include "services/model/cuda/nccl_group.h"
#include "services/model/cuda/peer_sums.h"
#include "services/model/cuda/rank_vote.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using cuda::DataType;
using cuda::Tensor;

constexpr absl::Duration kWatchInterval = absl::Milliseconds(100);

class NcclCommunicator final : public CudaCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<CudaModel> model, std::unique_ptr<cuda::NcclGroup> group,
                   std::unique_ptr<PeerSums> short_sums, std::vector<Shard> shards,
                   collective::Collective& host, uint32_t max_rows, absl::Duration timeout)
      : model_(std::move(model)),
        host_(host),
        group_(std::move(group)),
        short_sums_(std::move(short_sums)),
        shards_(std::move(shards)),
        rank_(host.rank()),
        timeout_(timeout),
        max_rows_(max_rows),
        hidden_(config().hidden),
        head_dim_(config().head_dim),
        vocab_(shards_.back().outputs.end()) {
    for (const Shard& other : shards_) {
      if (SharesHeads(other)) group_heads_ += other.heads.count;
    }
    watch_ = std::thread([this] { Watch(); });
  }
  // The calling thread may never have used this device.
  ~NcclCommunicator() override {
    closing_.Notify();
    watch_.join();
    cuda::BindDevice(model_->device()).IgnoreError();
  }

  absl::Status Allocate();

  bool leads() const override { return rank_ == Rank(0); }
  bool splits_groups() const override { return shards_.front().splits_groups; }

  Tensor partial(uint32_t rows) const override {
    FOLIO_CHECK(rows <= max_rows_);
    return {partial_, DataType::kBf16, rows, hidden_, DeviceStride(hidden_)};
  }
  absl::Status AllReduce(cuda::Stream stream, uint32_t rows) override {
    // The padding between rows is summed too and never read. One call is faster than one per row.
    const size_t count = rows * DeviceStride(hidden_);
    const bool is_short = count * cuda::BytesOf(DataType::kBf16) <= PeerSums::kMaxBytes;
    return short_sums_ != nullptr && is_short
               ? short_sums_->AllReduce(stream, partial_, count)
               : group_->AllReduce(partial_, count, DataType::kBf16, stream);
  }

  absl::StatusOr<Tensor> GatherLogits(cuda::Stream stream, const Tensor& own) override;
  absl::Status BroadcastTokens(cuda::Stream stream, void* tokens, size_t bytes) override {
    return group_->Broadcast(tokens, bytes, stream);
  }
  absl::StatusOr<GroupQueries> GatherQueries(cuda::Stream stream, const Tensor& q) override;

  absl::StatusOr<std::string> Agree(uint64_t subject, absl::string_view objection) override {
    return Vote(host_, subject, objection, SteadyNow() + timeout_);
  }
  absl::Status Await(const cuda::Event& done) override {
    SetWaiting(SteadyNow());
    absl::Status status = done.Wait();
    SetWaiting(SteadyTime::InfiniteFuture());
    status.Update(group_->Health());
    return status;
  }
  void Abort(const absl::Status& why) override {
    if (short_sums_ != nullptr) short_sums_->Abort();
    group_->Abort(why);
  }

 private:
  const ModelConfig& config() const { return model_->weights().config; }
  bool SharesHeads(const Shard& other) const {
    return other.kv_heads == shards_[rank_.value()].kv_heads;
  }
  void SetWaiting(SteadyTime since) {
    const absl::MutexLock lock(&waiting_mutex_);
    waiting_since_ = since;
  }
  // A rank that has died shows only on the host. A GPU that hangs shows nowhere, so a time limit
  // bounds the wait for it.
  absl::Status Progress() {
    if (absl::Status status = host_.Health(); !status.ok()) return status;
    // NCCL does not end the sums that are not its own.
    if (absl::Status status = group_->Health(); !status.ok()) return status;
    const absl::MutexLock lock(&waiting_mutex_);
    if (SteadyNow() - waiting_since_ <= timeout_) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "a step has not ended within ", absl::FormatDuration(timeout_), " on all ranks' GPUs"));
  }
  void Watch() {
    cuda::BindDevice(model_->device()).IgnoreError();  // aborting NCCL needs the device
    while (!closing_.WaitFor(kWatchInterval)) {
      if (absl::Status status = Progress(); !status.ok()) return Abort(status);
    }
  }
  static size_t LogitStride(uint32_t outputs) { return (outputs + 3) / 4 * size_t{4}; }

  const std::shared_ptr<CudaModel> model_;
  collective::Collective& host_;
  const std::unique_ptr<cuda::NcclGroup> group_;
  const std::unique_ptr<PeerSums> short_sums_;  // null where ranks do not reach each other
  const std::vector<Shard> shards_;             // of all ranks
  const Rank rank_;
  const absl::Duration timeout_;
  const uint32_t max_rows_, hidden_, head_dim_, vocab_;
  uint32_t group_heads_ = 0;  // query heads of this rank's KV heads, of the whole model

  void* partial_ = nullptr;  // the group's
  std::optional<cuda::DeviceCharge> charge_;
  cuda::DeviceBuffer gathered_;  // pieces as they come, rank by rank
  cuda::DeviceBuffer logits_;    // float32 [kMaxLogitRows, vocab]
  cuda::DeviceBuffer queries_;   // bf16 [max_rows, group heads * head_dim]
  std::vector<size_t> sizes_;

  absl::Mutex waiting_mutex_;
  SteadyTime waiting_since_ ABSL_GUARDED_BY(waiting_mutex_) = SteadyTime::InfiniteFuture();
  SteadyNotification closing_;
  std::thread watch_;
};

absl::Status NcclCommunicator::Allocate() {
  cuda::DeviceMemory& memory = model_->memory();
  const size_t partial_bytes = max_rows_ * DeviceStride(hidden_) * cuda::BytesOf(DataType::kBf16);
  auto charge = memory.Charge(partial_bytes, "partial sums of ranks");
  if (!charge.ok()) return charge.status();
  charge_.emplace(*std::move(charge));
  auto partial = group_->Allocate(partial_bytes);
  if (!partial.ok()) return partial.status();
  partial_ = *partial;
  size_t gathered = 0;
  if (leads()) {
    const size_t rows = CudaTransformer::kMaxLogitRows;
    for (const Shard& other : shards_) {
      gathered += rows * LogitStride(other.outputs.count) * sizeof(float);
    }
    auto logits = memory.Allocate(rows * LogitStride(vocab_) * sizeof(float), "all ranks' logits");
    if (!logits.ok()) return logits.status();
    logits_ = *std::move(logits);
  }
  if (splits_groups()) {
    const size_t row_bytes = head_dim_ * cuda::BytesOf(DataType::kBf16) * max_rows_;
    size_t heads = 0;
    for (const Shard& other : shards_) heads += other.heads.count;
    gathered = std::max(gathered, heads * row_bytes);
    auto queries = memory.Allocate(group_heads_ * row_bytes, "queries of all ranks");
    if (!queries.ok()) return queries.status();
    queries_ = *std::move(queries);
  }
  if (gathered == 0) return absl::OkStatus();
  auto pieces = memory.Allocate(gathered, "gathered pieces of ranks");
  if (!pieces.ok()) return pieces.status();
  gathered_ = *std::move(pieces);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> NcclCommunicator::GatherLogits(cuda::Stream stream, const Tensor& own) {
  FOLIO_CHECK(own.type == DataType::kFloat32 && own.stride == LogitStride(own.cols));
  FOLIO_CHECK(own.rows <= CudaTransformer::kMaxLogitRows);
  FOLIO_CHECK(own.cols == shards_[rank_.value()].outputs.count);
  sizes_.clear();
  for (const Shard& other : shards_) {
    sizes_.push_back(own.rows * LogitStride(other.outputs.count) * sizeof(float));
  }
  absl::Status status =
      group_->Gather(own.data, sizes_, gathered_.as<void>(), /*everyone=*/false, stream);
  if (!status.ok()) return status;
  if (!leads()) return Tensor{nullptr, DataType::kFloat32, own.rows, 0, 0};
  const Tensor whole = {logits_.as<void>(), DataType::kFloat32, own.rows, vocab_,
                        LogitStride(vocab_)};
  const std::byte* from = gathered_.as<>();
  for (size_t rank = 0; rank < shards_.size(); from += sizes_[rank++]) {
    const Range& outputs = shards_[rank].outputs;
    status = cuda::CopyRows(
        stream, logits_.as<float>() + outputs.first, whole.stride * sizeof(float), from,
        LogitStride(outputs.count) * sizeof(float), outputs.count * sizeof(float), own.rows);
    if (!status.ok()) return status;
  }
  return whole;
}

absl::StatusOr<CudaCommunicator::GroupQueries> NcclCommunicator::GatherQueries(cuda::Stream stream,
                                                                               const Tensor& q) {
  FOLIO_CHECK(q.type == DataType::kBf16 && q.stride == q.cols && q.rows <= max_rows_);
  const size_t head_bytes = head_dim_ * cuda::BytesOf(DataType::kBf16);
  sizes_.clear();
  for (const Shard& other : shards_) sizes_.push_back(q.rows * other.heads.count * head_bytes);
  absl::Status status =
      group_->Gather(q.data, sizes_, gathered_.as<void>(), /*everyone=*/true, stream);
  if (!status.ok()) return status;
  std::byte* to = queries_.as<>();
  const std::byte* from = gathered_.as<>();
  for (size_t rank = 0; rank < shards_.size(); from += sizes_[rank++]) {
    if (!SharesHeads(shards_[rank])) continue;
    const size_t bytes = shards_[rank].heads.count * head_bytes;
    status = cuda::CopyRows(stream, to, group_heads_ * head_bytes, from, bytes, bytes, q.rows);
    if (!status.ok()) return status;
    to += bytes;
  }
  const uint32_t cols = group_heads_ * head_dim_;
  return GroupQueries{{queries_.as<void>(), DataType::kBf16, q.rows, cols, cols},
                      {group_heads_, 1, head_dim_}};
}

absl::StatusOr<std::unique_ptr<cuda::NcclGroup>> JoinNccl(collective::Collective& host, int device,
                                                          absl::Duration timeout) {
  cuda::NcclGroup::Options options;
  options.rank = host.rank();
  options.ranks = host.size();
  options.device = device;
  options.timeout = timeout;
  if (host.leads()) {
    auto id = cuda::NcclGroup::MakeId();
    if (!id.ok()) return id.status();
    options.id = *std::move(id);
  }
  options.check = [&host] { return host.Health(); };
  absl::Status told = host.Broadcast(options.id, SteadyNow() + options.timeout);
  if (!told.ok()) return told;
  return cuda::NcclGroup::Join(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudaCommunicator>> MakeNcclCommunicator(
    std::shared_ptr<CudaModel> model, std::vector<Shard> shards, collective::Collective& host,
    uint32_t max_rows, absl::Duration timeout, bool use_peers) {
  FOLIO_CHECK(host.size() == shards.size());
  if (absl::Status bound = cuda::BindDevice(model->device()); !bound.ok()) return bound;
  auto group = JoinNccl(host, model->device(), timeout);
  if (!group.ok()) return group.status();
  std::unique_ptr<PeerSums> short_sums;
  if (use_peers) {
    auto made = PeerSums::Make(host, model->memory(), SteadyNow() + timeout);
    if (!made.ok()) return made.status();
    short_sums = *std::move(made);
  }
  auto communicator =
      std::make_shared<NcclCommunicator>(std::move(model), *std::move(group), std::move(short_sums),
                                         std::move(shards), host, max_rows, timeout);
  if (absl::Status status = communicator->Allocate(); !status.ok()) return status;
  return communicator;
}

}  // namespace folio::model
