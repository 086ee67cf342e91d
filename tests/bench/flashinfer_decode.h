// FlashInferDecode runs FlashInfer's own decode over its own default layout. It is a peer of
// kernels/cuda/attention/attention.h, which uses FlashInfer's prefill kernel over our pages. It
// does not use tensor cores, as is its default.
#ifndef FOLIO_TESTS_BENCH_FLASHINFER_DECODE_H_
#define FOLIO_TESTS_BENCH_FLASHINFER_DECODE_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/attention/attention.h"

namespace folio::bench {

// One row of each of `batch` sequences.
struct FlashInferPlan {
  std::array<int64_t, 10> numbers{};
  kernels::AttentionShape shape;
  uint32_t batch = 0;
  uint32_t page_tokens = 0;
};

// On the device.
struct FlashInferPages {
  void* keys = nullptr;  // [page][token][kv_head][head_dim] bf16
  void* values = nullptr;
  const int32_t* pages = nullptr;
  const int32_t* page_starts = nullptr;  // [batch + 1]
  const int32_t* last_tokens = nullptr;  // [batch]
};

// True if there are kernels for this number of query heads per KV head, with head_dim 64 or 128.
bool FlashInferServes(const kernels::AttentionShape& shape);

// `page_starts` [batch + 1] is on the host. The copy from page-locked memory is enqueued.
// RESOURCE_EXHAUSTED if the memory is too small. INTERNAL carries CUDA's words.
absl::StatusOr<FlashInferPlan> PlanFlashInfer(kernels::cuda::Stream stream,
                                              absl::Span<const int32_t> page_starts,
                                              const kernels::AttentionShape& shape,
                                              uint32_t page_tokens,
                                              const kernels::cuda::AttentionMemory& memory);

// q and out are [batch, heads * head_dim] bf16 with contiguous rows. Enqueues.
absl::Status RunFlashInfer(kernels::cuda::Stream stream, const FlashInferPlan& plan, const void* q,
                           const FlashInferPages& pages,
                           const kernels::cuda::AttentionMemory& memory, void* out);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_FLASHINFER_DECODE_H_
