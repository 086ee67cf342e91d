// RunHopperTile is FlashInfer's prefill kernel for GPUs of compute capability 9.0, in the style of
// FlashAttention 3. Each instance is compiled in a file of its own for these GPUs alone, because no
// other has its instructions, and without the types of CUTLASS in this header.
#ifndef FOLIO_KERNELS_CUDA_ATTENTION_HOPPER_H_
#define FOLIO_KERNELS_CUDA_ATTENTION_HOPPER_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::attention {

// Strides are in elements. All pointers are to memory of the device.
struct HopperCall {
  const void* q = nullptr;       // [rows, heads * head_dim], at a multiple of 16 bytes
  void* out = nullptr;           // the same
  const void* keys = nullptr;    // of page 0 and KV head 0
  const void* values = nullptr;  // the same
  int64_t q_stride = 0, out_stride = 0;
  int64_t page_stride = 0, head_stride = 0, token_stride = 0;
  int rows = 0, heads = 0, kv_heads = 0, page_tokens = 0;
  float scale = 0;
  int32_t* pages = nullptr;  // the layer's tables
  // The arrays of the plan hold an entry for each tile of a run and head, ordered by blocks.
  // `page_starts` counts from `pages`, and `contexts` are in tokens.
  int32_t *tiles = nullptr, *row_starts = nullptr, *page_starts = nullptr, *row_counts = nullptr,
          *contexts = nullptr, *head_numbers = nullptr, *run_numbers = nullptr;
  int32_t* block_starts = nullptr;  // [multiprocessors + 1] in the arrays above
};

using HopperKernel = cudaError_t(const HopperCall&, cudaStream_t);

// Instances are of bf16 and fp16, and of 64 and 128.
template <DataType kType, uint32_t kHeadDim>
cudaError_t RunHopperTile(const HopperCall& call, cudaStream_t stream);

// Null for what has no instance, and for everything where the build has no code for 9.0 alone.
HopperKernel* FindHopperKernel(DataType type, uint32_t head_dim);

// These are the two sides of a plan with `hopper`. The work fits (HopperPlanFits). Throws
// FlashInfer's exceptions.
cudaError_t PlanHopper(Stream stream, const AttentionWork& work, const AttentionMemory& memory,
                       AttentionPlan& plan);
cudaError_t RunHopper(Stream stream, const AttentionPlan& plan, ConstTensor q,
                      const LayerTables& tables, const DevicePool& pool,
                      const AttentionMemory& memory, Tensor out);

}  // namespace folio::kernels::cuda::attention

#endif  // FOLIO_KERNELS_CUDA_ATTENTION_HOPPER_H_
