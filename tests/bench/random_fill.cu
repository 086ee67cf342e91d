#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "tests/bench/random_fill.h"

namespace folio::bench {
namespace {

namespace device = kernels::cuda::device;
using kernels::bf16;
using kernels::cuda::DataType;

constexpr uint32_t kThreads = 256, kOfEachThread = 16, kMaxBlocks = 8192;

// SplitMix64's finalizer (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
__device__ __forceinline__ uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    FillKernel(T* data, uint64_t count, float low, float range, uint64_t seed) {
  const uint64_t step = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const auto bits = static_cast<uint32_t>(Mixed(seed + i * 0x9e3779b97f4a7c15) >> 40);
    device::Store(low + range * (static_cast<float>(bits) * 0x1p-24f), data[i]);
  }
}

template <typename T>
absl::Status Fill(kernels::cuda::Stream stream, void* data, size_t count, const Uniform& numbers) {
  const size_t blocks = (count + kThreads * kOfEachThread - 1) / (kThreads * kOfEachThread);
  return device::Launch("FillRandom", stream,
                        dim3(static_cast<uint32_t>(std::min<size_t>(blocks, kMaxBlocks))), kThreads,
                        FillKernel<T>, static_cast<T*>(data), count, numbers.low,
                        numbers.high - numbers.low, numbers.seed);
}

}  // namespace

absl::Status FillRandom(kernels::cuda::Stream stream, void* data, size_t count, DataType type,
                        const Uniform& numbers) {
  switch (type) {
    case DataType::kFloat32:
      return Fill<float>(stream, data, count, numbers);
    case DataType::kBf16:
      return Fill<bf16>(stream, data, count, numbers);
    case DataType::kE4M3:
      return Fill<kernels::e4m3>(stream, data, count, numbers);
    case DataType::kFp16:
      break;
  }
  return device::Unserved("random numbers are float32, bf16 or E4M3");
}

}  // namespace folio::bench
