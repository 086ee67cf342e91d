#include "kernels/cuda/runtime/uploads.h"

#include <utility>

#include "kernels/cuda/runtime/stream.h"
#include "services/base/check.h"

namespace folio::kernels::cuda {

Uploads::Room<std::byte> Uploads::ReserveBytes(size_t bytes) {
  bytes = Aligned(bytes);
  if (status_.ok() &&
      (chunks_.empty() || chunks_.back().host.bytes() - chunks_.back().used < bytes))
    status_ = Grow(bytes);
  if (!status_.ok()) {
    lost_.push_back(std::make_unique<std::byte[]>(bytes));
    return {lost_.back().get(), nullptr};
  }
  Chunk& chunk = chunks_.back();
  const size_t at = std::exchange(chunk.used, chunk.used + bytes);
  return {chunk.host.as<>() + at, chunk.device + at};
}

absl::Status Uploads::Grow(size_t bytes) {
  size_t size = std::max(bytes, chunks_.empty() ? kFirstBytes : 2 * chunks_.back().host.bytes());
  Chunk chunk;
  if (place_ != nullptr) {
    FOLIO_CHECK(chunks_.empty() && bytes <= place_->bytes());
    size = place_->bytes();
  }
  auto host = PinnedBuffer::Allocate(size, "the inputs of a step");
  if (!host.ok()) return host.status();
  chunk.host = *std::move(host);
  if (place_ == nullptr) {
    auto device = memory_.Allocate(size, "the inputs of a step");
    if (!device.ok()) return device.status();
    chunk.own = *std::move(device);
  }
  chunk.device = place_ != nullptr ? place_->as<>() : chunk.own.as<>();
  chunks_.push_back(std::move(chunk));
  return absl::OkStatus();
}

absl::Status Uploads::Flush(Stream stream) {
  if (!status_.ok()) return status_;
  for (Chunk& chunk : chunks_) {
    const size_t from = std::exchange(chunk.flushed, chunk.used);
    if (absl::Status status =
            CopyToDevice(stream, chunk.device + from, chunk.host.as<>() + from, chunk.used - from);
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

void Uploads::Clear() {
  // The largest block holds twice as much as was needed, so that it rarely grows again.
  if (chunks_.size() > 1) chunks_.erase(chunks_.begin(), chunks_.end() - 1);
  for (Chunk& chunk : chunks_) chunk.used = chunk.flushed = 0;
  lost_.clear();
  status_ = absl::OkStatus();
}

}  // namespace folio::kernels::cuda
