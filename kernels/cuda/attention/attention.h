// This header is our interface to FlashInfer's attention over pages, whose kernels are used as they
// are. It is the twin of CpuOps::Attention. Attention is causal and aligned to the bottom right,
// with any number of query heads per KV head. Kernels in the style of FlashAttention 2 run on every
// GPU and serve prefill and decode (a decode row is a prompt of one row, in a tile of 16). GPUs of
// compute capability 9.0 have kernels of their own for prompts, and each plan takes the kernels
// that are estimated to be faster (choice.h).
//
// A step plans once and then runs each layer. Planning is host arithmetic over lengths and one copy
// from page-locked memory on the stream. Layers whose tables have other lengths need a plan of
// their own. Neither call allocates on the device or waits. With `captured`, a call may be part of
// a graph. Its grid is then that of the largest batch, and planning again before the graph's launch
// changes the work of the blocks. Plans with the same number of items and the same `max_rows` then
// have the same numbers. If the rows fill the GPU without it, contexts are not split.
//
// Pages, queries and results have one type, bf16 or fp16, and head_dim is 64, 128 or 256. A plan
// serves either type. Scores and sums are float32, while probabilities and the parts of split
// contexts have the type of the pages. The split of long contexts depends on the batch and on the
// number of multiprocessors, so sums are rounded differently in another batch. `split_pages` fixes
// the split where a row must give the same bits in any batch.
//
// INVALID_ARGUMENT names an unsupported shape or type, RESOURCE_EXHAUSTED says that the given
// memory is too small, and INTERNAL carries CUDA's words.
#ifndef FOLIO_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define FOLIO_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// Memory for plans and for the parts of split contexts. It must live until the stream has passed
// all work of the plan. A plan that is made while the stream still copies an earlier one needs
// other `pinned` memory.
struct AttentionMemory {
  void* parts = nullptr;  // device; AttentionPartsBytes are enough for any batch
  size_t parts_bytes = 0;
  void* plan = nullptr;    // device
  void* pinned = nullptr;  // host, page-locked
  size_t plan_bytes = 0;   // of each of the two
};
// Valid for a GPU with `processors` multiprocessors, unless `split_pages` is given.
size_t AttentionPartsBytes(const AttentionShape& shape, uint32_t processors);
inline constexpr size_t kAttentionPlanBytes = size_t{8} << 20;

// The items of a step, on the host. Each has at least one row.
struct AttentionWork {
  absl::Span<const int32_t> row_starts;  // [runs + 1] rows of the batch, from 0
  // [runs] tokens that a run's last row attends to, its own included. If every run is one row, only
  // the number of pages matters, and layers with the same one may share a plan.
  absl::Span<const int32_t> contexts;
};

// Places at which the pages of each run begin, [runs + 1] from 0.
std::vector<int32_t> PageStarts(const AttentionWork& work, uint32_t page_tokens);
// Whether every run is one row.
bool AreSingleRows(const AttentionWork& work);

enum class AttentionKernels : uint8_t {
  kFastest,  // as the GPU, the build and the work have it
  kFa2,
  kHopper,  // INVALID_ARGUMENT where they cannot serve the work
};

struct AttentionOptions {
  bool captured = false;
  // With `captured`, the rows of the largest batch with this number of items.
  uint32_t max_rows = 0;
  // Contexts are split into parts of this many pages, or as fits the batch and the GPU if it is 0.
  uint32_t split_pages = 0;
  // Rows attend to the latest so many tokens alone, their own among them. 0 means to all.
  uint32_t window = 0;
  // With `captured`, `split_pages` or `window`, kFastest is kFa2.
  AttentionKernels kernels = AttentionKernels::kFastest;
};

struct AttentionPlan {
  std::array<int64_t, 15> flashinfer{};
  bool hopper = false;  // made for the Hopper kernels
  uint32_t runs = 0;
  AttentionShape shape;
  uint32_t page_tokens = 0;
  uint32_t window = 0;
};

absl::StatusOr<AttentionPlan> PlanAttention(Stream stream, const AttentionWork& work,
                                            const AttentionShape& shape, uint32_t page_tokens,
                                            const AttentionOptions& options,
                                            const AttentionMemory& memory);

// One layer's tables on the device, with the lengths of the plan.
struct LayerTables {
  const int32_t* pages = nullptr;        // all runs' tables, one after another
  const int32_t* page_starts = nullptr;  // [runs + 1], as far apart as they were planned
  const int32_t* last_tokens = nullptr;  // [runs] in a run's last page, 1 to page_tokens
  const int32_t* row_starts = nullptr;   // [runs + 1]
  // page_starts[0], for kernels that take all other lengths from the plan. A captured call does not
  // read it, so that its graph serves other lengths.
  uint32_t first_page = 0;
};

// q and out [rows, heads * head_dim] of the type of the pool.
absl::Status RunAttention(Stream stream, const AttentionPlan& plan, ConstTensor q,
                          const LayerTables& tables, const DevicePool& pool,
                          const AttentionMemory& memory, Tensor out);

// These checks return the errors for a model, a step and a layer.
absl::Status CheckShape(const AttentionShape& shape);

// Whether plans for this shape on the current GPU may ask for contexts in tokens. Otherwise they
// ask for pages alone, and contexts that are given in whole pages have fewer different ones.
// INTERNAL with CUDA's words.
absl::StatusOr<bool> PlansReadTokens(const AttentionShape& shape);
absl::Status CheckPlan(const AttentionWork& work, const AttentionShape& shape,
                       const AttentionOptions& options);
absl::Status CheckRun(const AttentionPlan& plan, ConstTensor q, const DevicePool& pool,
                      const Tensor& out);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_ATTENTION_ATTENTION_H_
