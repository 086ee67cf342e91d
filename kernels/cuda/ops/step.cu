// These kernels keep tables, place rows, feed tokens and count steps.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/ops/step.h"

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 128;

__global__ void __launch_bounds__(kThreads) WriteTablesKernel(const TableWrite* writes) {
  const TableWrite write = writes[blockIdx.x];
  for (uint32_t i = threadIdx.x; i < write.count; i += kThreads) write.to[i] = write.from[i];
}

__global__ void __launch_bounds__(kThreads)
    PlaceItemsKernel(const PlacedItem* runs, uint32_t page_tokens) {
  const PlacedItem run = runs[blockIdx.x];
  const uint32_t pages = (run.resident + run.rows + page_tokens - 1) / page_tokens;
  for (uint32_t i = threadIdx.x; i < pages; i += kThreads) {
    run.pages[i] = static_cast<int32_t>(run.table[i]);
  }
  for (uint32_t i = threadIdx.x; i < run.rows; i += kThreads) {
    const uint32_t slot = run.resident + i;
    run.slots[i] = {run.padding ? kNoPage : run.table[slot / page_tokens], slot % page_tokens,
                    run.first_position + i, run.score};
  }
}

__global__ void __launch_bounds__(kThreads)
    FeedTokensKernel(const uint32_t* ids, uint32_t count, const uint32_t* kept, uint32_t* out) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t id = ids[i];
  out[i] = id < kKeptToken ? id : kept[id - kKeptToken];
}

__global__ void __launch_bounds__(kThreads)
    KeepTokensKernel(const SampledToken* sampled, const uint32_t* places, uint32_t count,
                     uint32_t* kept) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < count && places[i] != kNotKept) kept[places[i]] = sampled[i].token;
}

__global__ void __launch_bounds__(kThreads)
    GatherRowsKernel(const float* from, size_t from_stride, const uint32_t* rows, float* out,
                     size_t out_stride, uint32_t cols) {
  const float* row = from + rows[blockIdx.x] * from_stride;
  for (uint32_t i = threadIdx.x; i < cols; i += kThreads) out[blockIdx.x * out_stride + i] = row[i];
}

// One warp, which is the smallest block that the emulator has.
__global__ void __launch_bounds__(32) CountStepKernel(uint64_t* counter, uint64_t step) {
  if (threadIdx.x != 0) return;
  // Earlier kernels' writes to the host are visible before the count is.
  __threadfence_system();
  *static_cast<volatile uint64_t*>(counter) = step;
}

}  // namespace

absl::Status WriteTables(Stream stream, DeviceArray<TableWrite> writes) {
  return device::Launch("WriteTables", stream, dim3(writes.size), kThreads, WriteTablesKernel,
                        writes.data);
}

absl::Status PlaceItems(Stream stream, DeviceArray<PlacedItem> runs, uint32_t page_tokens) {
  if (page_tokens == 0) return device::Unserved("page_tokens must be at least 1");
  return device::Launch("PlaceItems", stream, dim3(runs.size), kThreads, PlaceItemsKernel,
                        runs.data, page_tokens);
}

absl::Status FeedTokens(Stream stream, DeviceArray<uint32_t> ids, const uint32_t* kept,
                        uint32_t* out) {
  return device::Launch("FeedTokens", stream, dim3(device::Blocks(ids.size, kThreads)), kThreads,
                        FeedTokensKernel, ids.data, ids.size, kept, out);
}

absl::Status KeepTokens(Stream stream, const SampledToken* sampled, DeviceArray<uint32_t> places,
                        uint32_t* kept) {
  return device::Launch("KeepTokens", stream, dim3(device::Blocks(places.size, kThreads)), kThreads,
                        KeepTokensKernel, sampled, places.data, places.size, kept);
}

absl::Status GatherRows(Stream stream, ConstTensor from, DeviceArray<uint32_t> rows, Tensor out) {
  if (from.type != DataType::kFloat32 || out.type != DataType::kFloat32 || from.cols != out.cols ||
      out.rows < rows.size) {
    return device::Unserved("gathered rows must be float32 and keep their length");
  }
  return device::Launch("GatherRows", stream, dim3(rows.size), kThreads, GatherRowsKernel,
                        static_cast<const float*>(from.data), from.stride, rows.data,
                        static_cast<float*>(out.data), out.stride, out.cols);
}

absl::Status CountStep(Stream stream, uint64_t* counter, uint64_t step) {
  return device::Launch("CountStep", stream, dim3(1), 32, CountStepKernel, counter, step);
}

}  // namespace folio::kernels::cuda
