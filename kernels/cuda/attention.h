// Attention over pages: FlashInfer's kernels, as they are, behind an interface of ours. Twin of
// CpuOps::Attention. One kernel serves prompts and decoding (a decode row is a prompt of one row,
// in a tile of 16), causal and aligned to the bottom right, any number of query heads per KV head.
//
// A step plans once and then runs each layer: planning is host arithmetic over lengths and one copy
// from page-locked memory on the stream. Layers whose tables have other lengths want a plan of
// their own. Neither call allocates on the device or waits. With `captured` a run may be part of a
// graph: its grid is that of the largest batch, and planning again before the graph's launch
// changes what the blocks do. Plans of as many runs and the same `most_rows` then have the same
// numbers. Where rows of one run each fill the GPU by themselves, contexts are not split.
//
// Pages, queries and results are of one type, bf16 or fp16; head_dim is 64 or 128. A plan serves
// either. Scores and sums are float32; probabilities and the parts of split contexts are of that
// type. Kernels choose how to split long contexts by what the batch has and how many processors
// there are: sums are rounded otherwise in other company. Where a row must give the same bits in
// any company, `split_pages` fixes the split.
//
// INVALID_ARGUMENT names what is not served, RESOURCE_EXHAUSTED says that the memory given is too
// small, INTERNAL carries CUDA's words.
#ifndef FOLIO_KERNELS_CUDA_ATTENTION_H_
#define FOLIO_KERNELS_CUDA_ATTENTION_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// Memory for plans and for the parts of split contexts, kept as long as runs of a plan may be under
// way. A plan that is made while the stream still copies an earlier one needs other `pinned`
// memory.
struct AttentionMemory {
  void* parts = nullptr;  // device; AttentionPartsBytes are enough for any batch
  size_t parts_bytes = 0;
  void* plan = nullptr;    // device
  void* pinned = nullptr;  // host, page-locked
  size_t plan_bytes = 0;   // of each of the two
};
// On a GPU of so many multiprocessors, unless `split_pages` is given.
size_t AttentionPartsBytes(const AttentionShape& shape, uint32_t processors);
inline constexpr size_t kAttentionPlanBytes = size_t{8} << 20;

// What a step does, on the host. Runs have at least one row and one page each.
struct AttentionWork {
  absl::Span<const int32_t> row_starts;   // [runs + 1] rows of the batch, from 0
  absl::Span<const int32_t> page_starts;  // [runs + 1] places in LayerTables::pages, from 0
};

struct AttentionOptions {
  bool captured = false;
  // Captured: the rows of the largest batch with as many runs.
  uint32_t most_rows = 0;
  // Contexts are split into parts of so many pages; 0: as fits the batch and the GPU.
  uint32_t split_pages = 0;
};

struct AttentionPlan {
  std::array<int64_t, 15> flashinfer{};
  uint32_t runs = 0;
  AttentionShape shape;
  uint32_t page_tokens = 0;
};

absl::StatusOr<AttentionPlan> PlanAttention(Stream stream, const AttentionWork& work,
                                            const AttentionShape& shape, uint32_t page_tokens,
                                            const AttentionOptions& options,
                                            const AttentionMemory& memory);

// One layer's tables, on the device; lengths as planned.
struct LayerTables {
  const int32_t* pages = nullptr;        // all runs' tables, one after another
  const int32_t* page_starts = nullptr;  // [runs + 1], as far apart as they were planned
  const int32_t* last_tokens = nullptr;  // [runs] in a run's last page, 1 to page_tokens
  const int32_t* row_starts = nullptr;   // [runs + 1]
};

// q and out [rows, heads * head_dim] of the type of the pool.
absl::Status RunAttention(Stream stream, const AttentionPlan& plan, ConstTensor q,
                          const LayerTables& tables, const DevicePool& pool,
                          const AttentionMemory& memory, Tensor out);

// What is refused: of a model, of a step, of a layer.
absl::Status CheckShape(const AttentionShape& shape);
absl::Status CheckPlan(const AttentionWork& work, const AttentionShape& shape,
                       const AttentionOptions& options);
absl::Status CheckRun(const AttentionPlan& plan, ConstTensor q, const DevicePool& pool,
                      const Tensor& out);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_ATTENTION_H_
