#include "services/model/cpu/cpu_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "services/base/check.h"

namespace folio::model {

using kernels::Matrix;
using kernels::cpu::Activations;

CpuCommunicator::CpuCommunicator(CpuGroup group, const ModelConfig& config, size_t element_bytes)
    : group_(std::move(group)),
      head_bytes_(static_cast<uint32_t>(config.head_dim * element_bytes)),
      head_dim_(config.head_dim) {
  FOLIO_CHECK(group_.collective != nullptr && group_.shards.size() == group_.collective->size());
  FOLIO_CHECK(config.heads == shard().heads.count && config.outputs() == shard().outputs.count);
  vocab_ = group_.shards.back().outputs.end();
  // A KV head's query heads are those of the ranks that have it.
  for (const Shard& other : group_.shards) {
    if (other.kv_heads == shard().kv_heads) group_heads_ += other.heads.count;
  }
}

absl::Status CpuCommunicator::Sum(Matrix<float> partial) {
  FOLIO_CHECK(partial.stride == partial.cols);
  return group_.collective->AllReduce({partial.data, partial.rows * partial.cols}, deadline());
}

absl::Status CpuCommunicator::AllReduce(Matrix<float> partial, Matrix<float> hidden) {
  FOLIO_CHECK(partial.cols == hidden.cols);
  if (absl::Status status = Sum(partial); !status.ok()) return status;
  for (size_t row = 0; row < partial.rows; ++row) {
    float* to = hidden.row(row);
    const float* add = partial.row(row);
    for (size_t i = 0; i < partial.cols; ++i) to[i] += add[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<Matrix<const float>> CpuCommunicator::GatherLogits(Matrix<const float> own) {
  FOLIO_CHECK(own.stride == own.cols);
  const bool leads = group_.collective->leads();
  sizes_.clear();
  for (const Shard& other : group_.shards) {
    sizes_.push_back(own.rows * other.outputs.count * sizeof(float));
  }
  all_.resize(leads ? own.rows * vocab_ * sizeof(float) : 0);
  const auto* bytes = reinterpret_cast<const std::byte*>(own.data);
  const size_t count = own.rows * own.cols * sizeof(float);
  if (absl::Status status =
          group_.collective->Gather({bytes, count}, sizes_, absl::MakeSpan(all_), deadline());
      !status.ok()) {
    return status;
  }
  if (!leads) return Matrix<const float>{nullptr, own.rows, 0, 0};
  logits_.resize(own.rows * vocab_);
  const std::byte* from = all_.data();
  for (const Shard& other : group_.shards) {
    const size_t row_bytes = other.outputs.count * sizeof(float);
    for (size_t row = 0; row < own.rows; ++row, from += row_bytes) {
      std::memcpy(&logits_[row * vocab_ + other.outputs.first], from, row_bytes);
    }
  }
  return Matrix<const float>{logits_.data(), own.rows, vocab_, vocab_};
}

absl::StatusOr<CpuCommunicator::GroupQueries> CpuCommunicator::GatherQueries(
    const Activations& q, absl::Span<const kernels::WindowItem> windows) {
  const size_t own_bytes = size_t{shard().heads.count} * head_bytes_;
  GroupQueries whole;
  mine_.clear();
  uint32_t rows = 0;
  for (kernels::WindowItem window : windows) {
    const auto* first =
        static_cast<const std::byte*>(q.data) + window.queries.first_row * own_bytes;
    mine_.insert(mine_.end(), first, first + window.queries.rows * own_bytes);
    window.queries.first_row = rows;
    rows += window.queries.rows;
    whole.windows.push_back(window);
  }
  sizes_.clear();
  size_t total = 0;
  for (const Shard& other : group_.shards) {
    sizes_.push_back(size_t{rows} * other.heads.count * head_bytes_);
    total += sizes_.back();
  }
  all_.resize(total);
  if (absl::Status status =
          group_.collective->AllGather(mine_, sizes_, absl::MakeSpan(all_), deadline());
      !status.ok()) {
    return status;
  }
  if (rows > queries_rows_) {
    queries_rows_ = rows;
    queries_ = ActivationBuffer(head_bytes_, rows, group_heads_);
  }
  std::byte* to = queries_.data();
  const std::byte* from = all_.data();
  for (size_t rank = 0; rank < sizes_.size(); from += sizes_[rank++]) {
    const Shard& other = group_.shards[rank];
    if (other.kv_heads != shard().kv_heads) continue;
    const size_t bytes = size_t{other.heads.count} * head_bytes_;
    for (size_t row = 0; row < rows; ++row) {
      std::memcpy(to + row * group_heads_ * head_bytes_, from + row * bytes, bytes);
    }
    to += bytes;
  }
  whole.q = {queries_.data(), rows, group_heads_ * head_dim_};
  whole.shape = {group_heads_, 1, head_dim_};
  return whole;
}

}  // namespace folio::model
