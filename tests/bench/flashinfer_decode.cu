#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

#include "tests/bench/flashinfer_decode.h"

// FlashInfer's headers in the order that they want.
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/variants.cuh>
//
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/scheduler.cuh>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace folio::bench {
namespace {

using flashinfer::PosEncodingMode;
using kernels::AttentionShape;
using kernels::cuda::AttentionMemory;
using kernels::cuda::CudaStatus;
using kernels::cuda::Stream;
using Number = __nv_bfloat16;
using Params = flashinfer::BatchDecodeParams<Number, Number, Number, int32_t>;
using Variant = flashinfer::DefaultAttention<false, false, false, false>;

template <typename T>
T* At(void* memory, int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(memory) + offset);
}

template <uint32_t kGroup, uint32_t kHeadDim>
cudaError_t PlanOf(Stream stream, const FlashInferPlan& plan, std::vector<int32_t>& page_starts,
                   const AttentionMemory& memory, flashinfer::DecodePlanInfo& info) {
  constexpr bool kGraph = false;
  const auto estimate = flashinfer::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<
      kGroup, kHeadDim, PosEncodingMode::kNone, Variant, Params>;
  return flashinfer::DecodePlan<kHeadDim, PosEncodingMode::kNone, Variant, Params>(
      memory.parts, memory.parts_bytes, memory.plan, memory.pinned, memory.plan_bytes, info,
      page_starts.data(), plan.batch, plan.shape.heads, plan.page_tokens, kGraph, stream, estimate);
}

// By query heads per KV head; FlashInferServes has the same.
template <uint32_t kHeadDim, typename... Arguments>
cudaError_t PlanOfGroup(const AttentionShape& shape, Arguments&&... arguments) {
  switch (shape.heads / shape.kv_heads) {
    case 1:
      return PlanOf<1, kHeadDim>(arguments...);
    case 2:
      return PlanOf<2, kHeadDim>(arguments...);
    case 3:
      return PlanOf<3, kHeadDim>(arguments...);
    case 4:
      return PlanOf<4, kHeadDim>(arguments...);
    default:
      return PlanOf<8, kHeadDim>(arguments...);
  }
}

}  // namespace

bool FlashInferServes(const AttentionShape& shape) {
  if (shape.head_dim != 64 && shape.head_dim != 128) return false;
  if (shape.kv_heads == 0 || shape.heads % shape.kv_heads != 0) return false;
  const uint32_t group = shape.heads / shape.kv_heads;
  return (group >= 1 && group <= 4) || group == 8;
}

absl::StatusOr<FlashInferPlan> PlanFlashInfer(Stream stream, absl::Span<const int32_t> page_starts,
                                              const AttentionShape& shape, uint32_t page_tokens,
                                              const AttentionMemory& memory) {
  if (!FlashInferServes(shape) || page_starts.size() < 2) {
    return absl::InvalidArgumentError("FlashInfer's decode does not serve this shape");
  }
  FlashInferPlan plan{.shape = shape,
                      .batch = static_cast<uint32_t>(page_starts.size() - 1),
                      .page_tokens = page_tokens};
  std::vector<int32_t> starts(page_starts.begin(), page_starts.end());  // taken as not const
  try {
    flashinfer::DecodePlanInfo info;
    const cudaError_t error = shape.head_dim == 64
                                  ? PlanOfGroup<64>(shape, stream, plan, starts, memory, info)
                                  : PlanOfGroup<128>(shape, stream, plan, starts, memory, info);
    if (error != cudaSuccess) return CudaStatus("FlashInfer's decode was not planned", error);
    const std::vector<int64_t> numbers = info.ToVector();
    std::copy_n(numbers.begin(), plan.numbers.size(), plan.numbers.begin());
  } catch (const std::exception& exception) {
    return absl::ResourceExhaustedError(
        absl::StrCat("FlashInfer's decode was not planned: ", exception.what()));
  }
  return plan;
}

absl::Status RunFlashInfer(Stream stream, const FlashInferPlan& plan, const void* q,
                           const FlashInferPages& pages, const AttentionMemory& memory, void* out) {
  const AttentionShape& shape = plan.shape;
  Params params;
  params.q = static_cast<Number*>(const_cast<void*>(q));
  params.paged_kv = {shape.kv_heads,
                     plan.page_tokens,
                     shape.head_dim,
                     plan.batch,
                     flashinfer::QKVLayout::kNHD,
                     static_cast<Number*>(pages.keys),
                     static_cast<Number*>(pages.values),
                     const_cast<int32_t*>(pages.pages),
                     const_cast<int32_t*>(pages.page_starts),
                     const_cast<int32_t*>(pages.last_tokens)};
  params.o = static_cast<Number*>(out);
  params.num_qo_heads = shape.heads;
  params.q_stride_n = static_cast<int32_t>(shape.heads * shape.head_dim);
  params.q_stride_h = static_cast<int32_t>(shape.head_dim);
  params.window_left = -1;
  params.sm_scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  flashinfer::DecodePlanInfo info;
  info.FromVector({plan.numbers.begin(), plan.numbers.end()});
  params.padded_batch_size = static_cast<uint32_t>(info.padded_batch_size);
  params.request_indices = At<int32_t>(memory.plan, info.request_indices_offset);
  params.kv_tile_indices = At<int32_t>(memory.plan, info.kv_tile_indices_offset);
  params.o_indptr = At<int32_t>(memory.plan, info.o_indptr_offset);
  params.kv_chunk_size_ptr = At<int32_t>(memory.plan, info.kv_chunk_size_ptr_offset);
  Number* parts = info.split_kv ? At<Number>(memory.parts, info.v_offset) : nullptr;
  float* sums = info.split_kv ? At<float>(memory.parts, info.s_offset) : nullptr;
  constexpr bool kDependentLaunch = false;
  constexpr PosEncodingMode kNone = PosEncodingMode::kNone;
  try {
    const cudaError_t error =
        shape.head_dim == 64
            ? flashinfer::BatchDecodeWithPagedKVCacheDispatched<64, kNone, Variant, Params>(
                  params, parts, sums, kDependentLaunch, stream)
            : flashinfer::BatchDecodeWithPagedKVCacheDispatched<128, kNone, Variant, Params>(
                  params, parts, sums, kDependentLaunch, stream);
    return CudaStatus("FlashInfer's decode was not started", error);
  } catch (const std::exception& exception) {
    return absl::InternalError(
        absl::StrCat("FlashInfer's decode was not started: ", exception.what()));
  }
}

}  // namespace folio::bench
