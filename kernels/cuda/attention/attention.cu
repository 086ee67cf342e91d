#include <cmath>
#include <exception>
#include <flashinfer/attention/scheduler.cuh>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/attention/hopper.h"
#include "kernels/cuda/attention/tile.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace folio::kernels::cuda {
namespace {

using attention::Params;

template <typename T>
T* At(void* memory, int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(memory) + offset);
}

// The tokens in front of its own that a row attends to, or -1 for all.
int32_t WindowLeft(uint32_t window) { return static_cast<int32_t>(window) - 1; }

flashinfer::PrefillPlanInfo InfoOf(const AttentionPlan& plan) {
  flashinfer::PrefillPlanInfo info;
  info.FromVector({plan.flashinfer.begin(), plan.flashinfer.end()});
  return info;
}

// Strides of [page][K, V][kv_head][token][head_dim], by which FlashInfer finds K and V of a page.
template <typename Number>
flashinfer::paged_kv_t<Number, int32_t> PagesOf(const DevicePool& pool, const LayerTables& tables,
                                                uint32_t runs) {
  const CacheGeometry& g = pool.view.geometry;
  const int64_t per_head = int64_t{g.page_tokens} * g.head_dim;
  const int64_t strides[] = {2 * g.num_kv_heads * per_head, per_head, g.head_dim};
  auto* keys = reinterpret_cast<Number*>(pool.view.pages);
  return {g.num_kv_heads,
          g.page_tokens,
          g.head_dim,
          runs,
          flashinfer::QKVLayout::kHND,
          keys,
          keys + g.num_kv_heads * per_head,
          strides,
          const_cast<int32_t*>(tables.pages),
          const_cast<int32_t*>(tables.page_starts),
          const_cast<int32_t*>(tables.last_tokens)};
}

// The part of the plan that the kernel reads.
template <typename Number>
void SetPlan(const flashinfer::PrefillPlanInfo& info, const AttentionMemory& memory,
             Params<Number>& params) {
  params.request_indices = At<int32_t>(memory.plan, info.request_indices_offset);
  params.qo_tile_indices = At<int32_t>(memory.plan, info.qo_tile_indices_offset);
  params.kv_tile_indices = At<int32_t>(memory.plan, info.kv_tile_indices_offset);
  params.o_indptr = At<int32_t>(memory.plan, info.o_indptr_offset);
  params.kv_chunk_size_ptr = At<int32_t>(memory.plan, info.kv_chunk_size_ptr_offset);
  params.padded_batch_size = info.padded_batch_size;
  params.max_total_num_rows = info.total_num_rows;
  if (info.split_kv) params.merge_indptr = At<int32_t>(memory.plan, info.merge_indptr_offset);
  if (info.enable_cuda_graph) {
    params.total_num_rows = At<uint32_t>(memory.plan, info.total_num_rows_offset);
    if (info.split_kv) {
      params.block_valid_mask = At<bool>(memory.plan, info.block_valid_mask_offset);
    }
  }
}

struct Gpu {
  uint32_t processors = 0;
  bool is_hopper = false;
};

absl::StatusOr<Gpu> CurrentGpu() {
  int device = 0;
  if (absl::Status status = CudaStatus("no device", cudaGetDevice(&device)); !status.ok()) {
    return status;
  }
  int processors = 0, major = 0, minor = 0;
  for (const auto& [value, attribute] : {std::pair(&processors, cudaDevAttrMultiProcessorCount),
                                         {&major, cudaDevAttrComputeCapabilityMajor},
                                         {&minor, cudaDevAttrComputeCapabilityMinor}}) {
    absl::Status status = CudaStatus("the device does not say what it is",
                                     cudaDeviceGetAttribute(value, attribute, device));
    if (!status.ok()) return status;
  }
  return Gpu{static_cast<uint32_t>(processors), major == 9 && minor == 0};
}

// A plan serves both types, and both are compiled or neither.
bool HasHopperKernels(const Gpu& gpu, const AttentionShape& shape) {
  return gpu.is_hopper && attention::FindHopperKernel(DataType::kBf16, shape.head_dim) != nullptr;
}

// Whether the plan is for the Hopper kernels.
absl::StatusOr<bool> TakesHopper(const AttentionWork& work, const AttentionShape& shape,
                                 const AttentionOptions& options, const AttentionMemory& memory) {
  const bool forced = options.kernels == AttentionKernels::kHopper;
  if (options.kernels == AttentionKernels::kFa2 || options.captured || options.split_pages > 0 ||
      options.window > 0 || (AreSingleRows(work) && !forced)) {
    return false;
  }
  const auto gpu = CurrentGpu();
  if (!gpu.ok()) return gpu.status();
  const bool serves = HasHopperKernels(*gpu, shape) &&
                      attention::HopperPlanFits(work, shape, gpu->processors, memory.plan_bytes);
  if (forced && !serves) {
    return absl::InvalidArgumentError(
        "CUDA attention: this GPU, build or batch is none for the Hopper kernels");
  }
  return forced || (serves && attention::HopperIsFaster(work, shape, gpu->processors));
}

// True if a block per row and KV head gives two blocks to each multiprocessor, which is the number
// that FlashInfer splits contexts for. In graphs it would still "split" each context into one part
// and add the parts up, which costs time for nothing.
absl::StatusOr<bool> FillTheGpu(uint32_t rows, const AttentionShape& shape) {
  const auto gpu = CurrentGpu();
  if (!gpu.ok()) return gpu.status();
  return uint64_t{rows} * shape.kv_heads >= uint64_t{2} * gpu->processors;
}

template <typename Number, uint32_t kHeadDim>
cudaError_t RunRows(int64_t rows, const Params<Number>& params, Number* parts, float* sums,
                    cudaStream_t stream) {
  if (rows == 16) return attention::RunTile<Number, 16, kHeadDim>(params, parts, sums, stream);
  // FlashInfer plans tiles of at most 64 rows for heads of 256.
  if constexpr (kHeadDim < 256) {
    if (rows == 128) return attention::RunTile<Number, 128, kHeadDim>(params, parts, sums, stream);
  }
  return attention::RunTile<Number, 64, kHeadDim>(params, parts, sums, stream);
}

// Throws FlashInfer's exceptions.
template <typename Number>
cudaError_t Run(cudaStream_t stream, const AttentionPlan& plan, ConstTensor q,
                const LayerTables& tables, const DevicePool& pool, const AttentionMemory& memory,
                Tensor out) {
  const AttentionShape& shape = plan.shape;
  const flashinfer::PrefillPlanInfo info = InfoOf(plan);
  Params<Number> params;
  params.q = static_cast<Number*>(const_cast<void*>(q.data));
  params.paged_kv = PagesOf<Number>(pool, tables, plan.runs);
  params.q_indptr = const_cast<int32_t*>(tables.row_starts);
  params.o = static_cast<Number*>(out.data);
  params.num_qo_heads = shape.heads;
  params.group_size = flashinfer::uint_fastdiv(shape.heads / shape.kv_heads);
  params.q_stride_n = static_cast<int32_t>(q.stride);
  params.q_stride_h = static_cast<int32_t>(shape.head_dim);
  params.window_left = WindowLeft(plan.window);
  params.sm_scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  SetPlan(info, memory, params);
  Number* parts = info.split_kv ? At<Number>(memory.parts, info.v_offset) : nullptr;
  float* sums = info.split_kv ? At<float>(memory.parts, info.s_offset) : nullptr;
  const auto run = shape.head_dim == 64    ? RunRows<Number, 64>
                   : shape.head_dim == 128 ? RunRows<Number, 128>
                                           : RunRows<Number, 256>;
  return run(info.cta_tile_q, params, parts, sums, stream);
}

// Throws FlashInfer's exceptions. `whole`: contexts are not split.
cudaError_t PlanFa2(Stream stream, const AttentionWork& work, const AttentionOptions& options,
                    bool whole, const AttentionMemory& memory, AttentionPlan& plan) {
  // FlashInfer takes pointers to non-const memory but does not write to it.
  std::vector<int32_t> row_starts(work.row_starts.begin(), work.row_starts.end());
  std::vector<int32_t> page_starts = PageStarts(work, plan.page_tokens);
  const AttentionShape& shape = plan.shape;
  constexpr uint32_t kNumberBytes = 2;  // bf16 and fp16 alike
  flashinfer::PrefillPlanInfo info;
  const cudaError_t error = flashinfer::PrefillPlan<int32_t>(
      memory.parts, memory.parts_bytes, memory.plan, memory.pinned, memory.plan_bytes, info,
      row_starts.data(), page_starts.data(),
      options.captured ? options.max_rows : static_cast<uint32_t>(row_starts.back()), plan.runs,
      shape.heads, shape.kv_heads, shape.head_dim, shape.head_dim, plan.page_tokens,
      options.captured && !whole, kNumberBytes, WindowLeft(plan.window),
      static_cast<int32_t>(options.split_pages), /*disable_split_kv=*/whole,
      /*num_colocated_ctas=*/0, stream);
  if (error != cudaSuccess) return error;
  const std::vector<int64_t> numbers = info.ToVector();
  std::copy_n(numbers.begin(), plan.flashinfer.size(), plan.flashinfer.begin());
  return cudaSuccess;
}

}  // namespace

absl::StatusOr<bool> PlansReadTokens(const AttentionShape& shape) {
  const auto gpu = CurrentGpu();
  if (!gpu.ok()) return gpu.status();
  return HasHopperKernels(*gpu, shape);
}

absl::StatusOr<AttentionPlan> PlanAttention(Stream stream, const AttentionWork& work,
                                            const AttentionShape& shape, uint32_t page_tokens,
                                            const AttentionOptions& options,
                                            const AttentionMemory& memory) {
  if (absl::Status status = CheckPlan(work, shape, options); !status.ok()) return status;
  const auto hopper = TakesHopper(work, shape, options, memory);
  if (!hopper.ok()) return hopper.status();
  AttentionPlan plan{.hopper = *hopper,
                     .runs = static_cast<uint32_t>(work.contexts.size()),
                     .shape = shape,
                     .page_tokens = page_tokens,
                     .window = options.window};
  // One row per item is one tile per item, so that without splits the grid does not depend on the
  // lengths.
  bool whole = false;
  if (options.captured && options.max_rows == plan.runs && AreSingleRows(work)) {
    const auto filled = FillTheGpu(plan.runs, shape);
    if (!filled.ok()) return filled.status();
    whole = *filled;
  }
  try {
    const cudaError_t error = plan.hopper ? attention::PlanHopper(stream, work, memory, plan)
                                          : PlanFa2(stream, work, options, whole, memory, plan);
    if (error != cudaSuccess) return CudaStatus("attention was not planned", error);
  } catch (const std::exception& exception) {
    return absl::ResourceExhaustedError(
        absl::StrCat("attention was not planned: ", exception.what()));
  }
  return plan;
}

absl::Status RunAttention(Stream stream, const AttentionPlan& plan, ConstTensor q,
                          const LayerTables& tables, const DevicePool& pool,
                          const AttentionMemory& memory, Tensor out) {
  if (absl::Status status = CheckRun(plan, q, pool, out); !status.ok()) return status;
  const auto run = plan.hopper                    ? attention::RunHopper
                   : pool.type == DataType::kFp16 ? Run<half>
                                                  : Run<__nv_bfloat16>;
  try {
    const cudaError_t error = run(stream, plan, q, tables, pool, memory, out);
    return CudaStatus("attention was not started", error);
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("attention was not started: ", exception.what()));
  }
}

}  // namespace folio::kernels::cuda
