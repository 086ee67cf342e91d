#include <algorithm>
#include <cmath>
#include <flashinfer/attention/scheduler.cuh>
#include <vector>

#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/attention/hopper.h"

namespace folio::kernels::cuda::attention {
namespace {

constexpr size_t kInfoNumbers = 9;  // of PrefillPlanSM90Info

flashinfer::PrefillPlanSM90Info InfoOf(const AttentionPlan& plan) {
  flashinfer::PrefillPlanSM90Info info;
  info.FromVector({plan.flashinfer.begin(), plan.flashinfer.begin() + kInfoNumbers});
  return info;
}

}  // namespace

cudaError_t PlanHopper(Stream stream, const AttentionWork& work, const AttentionMemory& memory,
                       AttentionPlan& plan) {
  // FlashInfer takes pointers to non-const memory but does not write to it.
  std::vector<int32_t> row_starts(work.row_starts.begin(), work.row_starts.end());
  std::vector<int32_t> page_starts = PageStarts(work, plan.page_tokens);
  std::vector<int32_t> contexts(work.contexts.begin(), work.contexts.end());
  // The plan takes from a head_dim only the rows of a tile, which are 192 for 64 and 128 for any
  // other.
  constexpr uint32_t kHeadDimOfTile = 128;
  static_assert(kHopperTile == 128);
  constexpr uint32_t kNumberBytes = 2;  // bf16 and fp16 alike
  flashinfer::PrefillPlanSM90Info info;
  const cudaError_t error = flashinfer::PrefillSM90Plan<int32_t>(
      /*float_buffer=*/nullptr, 0, memory.plan, memory.pinned, memory.plan_bytes, info,
      row_starts.data(), page_starts.data(), contexts.data(),
      static_cast<uint32_t>(row_starts.back()), plan.runs, plan.shape.heads, plan.shape.kv_heads,
      kHeadDimOfTile, kHeadDimOfTile, plan.page_tokens, /*causal=*/true,
      /*enable_cuda_graph=*/false, kNumberBytes, stream);
  if (error != cudaSuccess) return error;
  if (info.same_schedule_for_all_heads) return cudaErrorNotSupported;  // not compiled
  const std::vector<int64_t> numbers = info.ToVector();
  std::copy_n(numbers.begin(), kInfoNumbers, plan.flashinfer.begin());
  return cudaSuccess;
}

cudaError_t RunHopper(Stream stream, const AttentionPlan& plan, ConstTensor q,
                      const LayerTables& tables, const DevicePool& pool,
                      const AttentionMemory& memory, Tensor out) {
  const CacheGeometry& g = pool.view.geometry;
  HopperKernel* const kernel = FindHopperKernel(pool.type, g.head_dim);
  if (kernel == nullptr) return cudaErrorNotSupported;
  const int64_t per_head = int64_t{g.page_tokens} * g.head_dim;
  const int64_t per_part = g.num_kv_heads * per_head;  // K or V of a page
  const flashinfer::PrefillPlanSM90Info info = InfoOf(plan);
  const auto planned = [&](int64_t offset) {
    return reinterpret_cast<int32_t*>(static_cast<char*>(memory.plan) + offset);
  };
  return kernel({.q = q.data,
                 .out = out.data,
                 .keys = pool.view.pages,
                 .values = pool.view.pages + per_part * static_cast<int64_t>(BytesOf(pool.type)),
                 .q_stride = static_cast<int64_t>(q.stride),
                 .out_stride = static_cast<int64_t>(out.stride),
                 .page_stride = 2 * per_part,
                 .head_stride = per_head,
                 .token_stride = g.head_dim,
                 .rows = static_cast<int>(q.rows),
                 .heads = static_cast<int>(plan.shape.heads),
                 .kv_heads = static_cast<int>(plan.shape.kv_heads),
                 .page_tokens = static_cast<int>(g.page_tokens),
                 .scale = 1.0f / std::sqrt(static_cast<float>(g.head_dim)),
                 .pages = const_cast<int32_t*>(tables.pages) + tables.first_page,
                 .tiles = planned(info.qo_tile_indices_offset),
                 .row_starts = planned(info.qo_indptr_offset),
                 .page_starts = planned(info.kv_indptr_offset),
                 .row_counts = planned(info.qo_len_offset),
                 .contexts = planned(info.kv_len_offset),
                 .head_numbers = planned(info.head_indices_offset),
                 .run_numbers = planned(info.batch_indices_offset),
                 .block_starts = planned(info.work_indptr_offset)},
                stream);
}

}  // namespace folio::kernels::cuda::attention
