// WeightSender sends tensors that threads have read to a GPU, one at a time, through page-locked
// memory. One half of it is filled while the other is on its way.
#ifndef FOLIO_SERVICES_MODEL_CUDA_WEIGHT_SENDER_H_
#define FOLIO_SERVICES_MODEL_CUDA_WEIGHT_SENDER_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/base/check.h"

namespace folio::model {

// Thread-safe. Errors are those of the device.
class WeightSender {
 public:
  static absl::StatusOr<std::unique_ptr<WeightSender>> Make() {
    auto stream = kernels::cuda::OwnedStream::Create();
    if (!stream.ok()) return stream.status();
    auto sender = std::unique_ptr<WeightSender>(new WeightSender(*std::move(stream)));
    for (int i = 0; i < 2; ++i) {
      auto memory =
          kernels::cuda::PinnedBuffer::Allocate(kHalfBytes, "weights on their way to the device");
      if (!memory.ok()) return memory.status();
      auto sent = kernels::cuda::Event::Create();
      if (!sent.ok()) return sent.status();
      absl::MutexLock lock(&sender->mutex_);
      sender->halves_.push_back({*std::move(memory), *std::move(sent)});
    }
    return sender;
  }

  // Rows of `cols` elements, packed, to rows `stride` apart; what is between becomes zeros.
  template <typename T>
  absl::Status Send(absl::Span<const T> values, size_t cols, size_t stride, void* to)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (absl::Status bound = kernels::cuda::BindDevice(device_); !bound.ok()) return bound;
    const size_t rows = values.size() / cols;
    const size_t at_once = kHalfBytes / (stride * sizeof(T));
    FOLIO_CHECK(at_once > 0);
    for (size_t first = 0; first < rows; first += at_once) {
      const size_t count = std::min(at_once, rows - first);
      Half& half = halves_[next_++ % halves_.size()];
      if (absl::Status status = half.sent.Wait(); !status.ok()) return status;
      T* row = half.memory.as<T>();
      for (size_t i = first; i < first + count; ++i, row += stride) {
        std::copy_n(&values[i * cols], cols, row);
        std::fill_n(row + cols, stride - cols, T{});
      }
      absl::Status status =
          kernels::cuda::CopyToDevice(stream_.get(), static_cast<T*>(to) + first * stride,
                                      half.memory.as<>(), count * stride * sizeof(T));
      status.Update(half.sent.Record(stream_.get()));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Until all has arrived.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return kernels::cuda::WaitFor(stream_.get());
  }

 private:
  static constexpr size_t kHalfBytes = size_t{16} << 20;
  struct Half {
    kernels::cuda::PinnedBuffer memory;
    kernels::cuda::Event sent;
  };

  explicit WeightSender(kernels::cuda::OwnedStream stream) : stream_(std::move(stream)) {}

  const int device_ = kernels::cuda::CurrentDevice();
  absl::Mutex mutex_;
  kernels::cuda::OwnedStream stream_ ABSL_GUARDED_BY(mutex_);
  std::vector<Half> halves_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_WEIGHT_SENDER_H_
