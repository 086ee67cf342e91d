// PlainDecode is a peer of the whole service. It is a decode loop over the same kernels (cuBLASLt's
// products, FlashInfer's attention) without manager, eviction, scores or clients. Every sequence
// has contiguous pages of its own as long as it lives.
#ifndef FOLIO_TESTS_BENCH_PLAIN_DECODE_H_
#define FOLIO_TESTS_BENCH_PLAIN_DECODE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/ops/sampling.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploads.h"
#include "tests/bench/gpu_model.h"

namespace folio::bench {

class PlainDecode {
 public:
  // Makes `batch` sequences of `context` tokens, whose K and V are the present contents of the
  // pool's pages, with room for `steps` more. The model is borrowed, and no harness may serve on it
  // meanwhile. RESOURCE_EXHAUSTED if the pool is too small.
  static absl::StatusOr<std::unique_ptr<PlainDecode>> Make(const GpuModel& model, uint32_t batch,
                                                           uint32_t context, uint32_t steps);

  // Enqueues a step, in which each sequence is fed its last token and keeps the likeliest next one.
  // Waits for the step before the last one.
  absl::Status Step();
  // Waits until all steps are done.
  absl::Status Finish() { return kernels::cuda::WaitFor(stream_->get()); }

 private:
  PlainDecode(const GpuModel& model, uint32_t batch, uint32_t context, uint32_t steps);
  absl::Status Allocate();
  absl::Status RunLayers();
  absl::Status RunLayer(uint32_t layer);
  absl::Status SampleNext();
  // Sends the inputs of the step: places of the rows, lengths, and tables that have grown.
  absl::Status Build();
  absl::Status BuildTables(uint32_t pages);

  // The host memory that a step uses until it is done.
  struct Space {
    Space(kernels::cuda::DeviceMemory& memory, kernels::cuda::PinnedBuffer plan,
          kernels::cuda::Event done)
        : uploads(memory), plan(std::move(plan)), done(std::move(done)) {}
    kernels::cuda::Uploads uploads;
    kernels::cuda::PinnedBuffer plan;
    kernels::cuda::Event done;
  };
  absl::Status MakeSpaces();
  Space& space() { return *spaces_[steps_ % spaces_.size()]; }

  struct Buffer {
    kernels::cuda::DeviceBuffer memory;
    kernels::cuda::Tensor tensor;
  };
  absl::Status MakeBuffer(kernels::cuda::DataType type, uint32_t cols, Buffer* to);

  const GpuModel& model_;
  const model::DeviceWeights& weights_;
  const kernels::cuda::DevicePool pool_;
  const kernels::AttentionShape shape_;
  const uint32_t batch_, pages_of_each_;
  uint32_t context_;
  uint32_t laid_pages_ = 0;  // of each sequence, in the tables on the device

  kernels::cuda::DeviceMemory memory_{0};
  std::unique_ptr<kernels::cuda::OwnedStream> stream_;
  std::unique_ptr<kernels::cuda::Gemm> gemm_;
  std::unique_ptr<kernels::cuda::Uploads> tables_on_device_;
  std::vector<std::unique_ptr<Space>> spaces_;
  uint64_t steps_ = 0;
  Buffer hidden_, normed_, qkv_, q_, attended_, gate_up_, ffn_, logits_;
  kernels::cuda::DeviceBuffer ids_, sampled_, parts_, plan_memory_, gemm_space_;
  // Memory of the step on the device.
  std::vector<kernels::cuda::DeviceArray<kernels::AppendSlot>> slots_;  // [layer]
  std::vector<kernels::cuda::LayerTables> tables_;                      // [layer]
  kernels::cuda::DeviceArray<kernels::cuda::SampleRow> rows_;
  kernels::cuda::DeviceArray<uint32_t> places_;
  kernels::cuda::AttentionPlan plan_;
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_PLAIN_DECODE_H_
