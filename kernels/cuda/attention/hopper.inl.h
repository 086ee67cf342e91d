// This file defines RunHopperTile for the files that instantiate it.
#ifndef FOLIO_KERNELS_CUDA_ATTENTION_HOPPER_INL_H_
#define FOLIO_KERNELS_CUDA_ATTENTION_HOPPER_INL_H_

// This header of FlashInfer would include all of CUTLASS's test utilities, and with them cuRAND,
// which is not in our toolkit. The kernels need only the headers below.
#define FLASHINFER_CUTLASS_UTILS_CUH_

// clang-format off: FlashInfer's headers depend on this order.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cutlass/cutlass.h>
#include <cutlass/numeric_types.h>

#include <cute/tensor.hpp>
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <flashinfer/attention/hopper/variants.cuh>
#include <sstream>
#include <type_traits>
// clang-format on

#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/attention/hopper.h"

namespace folio::kernels::cuda::attention {

// The members that FlashInfer's launcher and StandardAttention read, by the names that they want.
template <typename Number>
struct HopperParams {
  using DTypeQ = Number;
  using DTypeKV = Number;
  using DTypeO = Number;
  using IdType = int32_t;
  struct AdditionalParams {
    float sm_scale;
  };

  DTypeQ* q_ptr;
  DTypeKV *k_ptr, *v_ptr;
  DTypeO* o_ptr;
  float* lse_ptr;  // not written if it is null
  IdType *qo_tile_indices, *qo_indptr, *kv_indptr, *kv_indices, *qo_lens, *kv_lens, *head_indices,
      *work_indptr, *batch_indices;
  AdditionalParams additional_params;
  int64_t q_stride_n, k_stride_n, v_stride_n, o_stride_n;
  int64_t q_stride_h, k_stride_h, v_stride_h, o_stride_h;
  int64_t nnz_qo;
  int64_t k_page_stride, v_page_stride;
  int num_qo_heads, num_kv_heads, group_size, page_size, window_left;
  bool causal;
};

template <typename Number>
HopperParams<Number> ParamsOf(const HopperCall& call, uint32_t head_dim) {
  HopperParams<Number> p{};
  p.q_ptr = static_cast<Number*>(const_cast<void*>(call.q));
  p.k_ptr = static_cast<Number*>(const_cast<void*>(call.keys));
  p.v_ptr = static_cast<Number*>(const_cast<void*>(call.values));
  p.o_ptr = static_cast<Number*>(call.out);
  p.qo_tile_indices = call.tiles;
  p.qo_indptr = call.row_starts;
  p.kv_indptr = call.page_starts;
  p.kv_indices = call.pages;
  p.qo_lens = call.row_counts;
  p.kv_lens = call.contexts;
  p.head_indices = call.head_numbers;
  p.work_indptr = call.block_starts;
  p.batch_indices = call.run_numbers;
  p.additional_params.sm_scale = call.scale;
  p.q_stride_n = call.q_stride;
  p.o_stride_n = call.out_stride;
  p.q_stride_h = p.o_stride_h = head_dim;
  p.k_stride_n = p.v_stride_n = call.token_stride;
  p.k_stride_h = p.v_stride_h = call.head_stride;
  p.k_page_stride = p.v_page_stride = call.page_stride;
  p.nnz_qo = call.rows;
  p.num_qo_heads = call.heads;
  p.num_kv_heads = call.kv_heads;
  p.group_size = call.heads / call.kv_heads;
  p.page_size = call.page_tokens;
  p.window_left = -1;
  p.causal = true;
  return p;
}

// FlashInfer itself dispatches tiles of 96 tokens, and of 192 rows for a head_dim of 64. Those of
// 128 and 128 were faster nearly everywhere (choice.cc).
template <DataType kType, uint32_t kHeadDim>
cudaError_t RunHopperTile(const HopperCall& call, cudaStream_t stream) {
  static_assert(kType == DataType::kBf16 || kType == DataType::kFp16);
  using Number = std::conditional_t<kType == DataType::kBf16, cutlass::bfloat16_t, cutlass::half_t>;
  constexpr bool kTmaForPages = false;
  constexpr int kStages = 2;
  using Traits = flashinfer::AttentionKernelTraits<kTmaForPages, kHeadDim, kHeadDim, kHopperTile,
                                                   kHopperTile, kStages, Number, Number, Number,
                                                   int32_t, flashinfer::StandardAttention>;
  constexpr bool kWindow = false, kCausal = true, kOneScheduleForAllHeads = false;
  HopperParams<Number> params = ParamsOf<Number>(call, kHeadDim);
  return flashinfer::BatchPrefillWithPagedKVCacheKernelTraitsDispatched<Traits, kWindow, kCausal,
                                                                        kOneScheduleForAllHeads>(
      params, stream);
}

}  // namespace folio::kernels::cuda::attention

#endif  // FOLIO_KERNELS_CUDA_ATTENTION_HOPPER_INL_H_
