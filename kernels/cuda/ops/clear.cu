// This kernel clears pages that another tenant's tokens may be in.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/ops/ops.h"

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// A block clears a page.
__global__ void __launch_bounds__(kThreads)
    ClearKernel(const uint32_t* pages, std::byte* memory, uint32_t words) {
  auto* page = reinterpret_cast<uint64_t*>(memory) + size_t{pages[blockIdx.x]} * words;
  for (uint32_t word = threadIdx.x; word < words; word += kThreads) page[word] = 0;
}

}  // namespace

absl::Status Clear(Stream stream, DeviceArray<uint32_t> pages, const DevicePool& pool) {
  if (pages.size == 0) return absl::OkStatus();
  // K and V of an even head_dim, of two bytes each, so that nothing is left over.
  const size_t words = pool.view.geometry.page_bytes() / sizeof(uint64_t);
  return device::Launch("Clear", stream, dim3(pages.size), kThreads, ClearKernel, pages.data,
                        pool.view.pages, static_cast<uint32_t>(words));
}

}  // namespace folio::kernels::cuda
