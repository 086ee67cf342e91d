// This header is a stand-in for CUDA's header of this name. It has the functions that Folio's
// device code calls, for the emulator.
#ifndef FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_RUNTIME_H_
#define FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_RUNTIME_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "cuda_runtime_api.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/runtime.h"

// A thread of the host never runs two blocks at once, so shared memory may be static.
#define __shared__ static thread_local
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx (::folio::emulate::place.thread)
#define blockIdx (::folio::emulate::place.block)

// No macros, because a launch has members of these names. No references of each thread either,
// which would be initialised at their first use, and ThreadSanitizer takes lanes for threads.
namespace folio::emulate {
template <Index3 Place::*of, unsigned Index3::*axis>
struct Extent {
  operator unsigned() const { return (place.*of).*axis; }  // NOLINT(google-explicit-constructor)
};
template <Index3 Place::*of>
struct Extents {
  Extent<of, &Index3::x> x;
  Extent<of, &Index3::y> y;
  Extent<of, &Index3::z> z;
};
}  // namespace folio::emulate
inline constexpr folio::emulate::Extents<&folio::emulate::Place::block_size> blockDim{};
inline constexpr folio::emulate::Extents<&folio::emulate::Place::grid_size> gridDim{};

using std::max;
using std::min;
struct dim3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
union cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
inline void __threadfence() { folio::emulate::Fence(); }
inline void __threadfence_system() { folio::emulate::Fence(); }
inline void __nanosleep(unsigned) { std::this_thread::yield(); }
inline void __syncthreads() { folio::emulate::BlockBarrier(); }

// Warp exchanges, of all lanes.
template <typename T>
T __shfl_sync(uint32_t mask, T value, int lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return std::bit_cast<T>(static_cast<Bits>(
      folio::emulate::Exchange(std::bit_cast<Bits>(value), static_cast<unsigned>(lane))));
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int lanes) {
  return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % 32) ^ lanes);
}
template <typename T>
T __shfl_up_sync(uint32_t mask, T value, unsigned lanes) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int from = lane - static_cast<int>(lanes);
  return __shfl_sync(mask, value, from < 0 ? lane : from);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
  return folio::emulate::Ballot(predicate != 0);
}
inline void __syncwarp(uint32_t mask = ~0u) { folio::emulate::WarpBarrier(); }

inline int __popc(uint32_t x) { return std::popcount(x); }
inline int __ffs(uint32_t x) { return x == 0 ? 0 : std::countr_zero(x) + 1; }
// Four of the eight bytes, each by three bits of `which`.
inline uint32_t __byte_perm(uint32_t lower, uint32_t upper, uint32_t which) {
  const uint64_t bytes = lower | uint64_t{upper} << 32;
  uint32_t to = 0;
  for (int i = 0; i < 32; i += 8) to |= (bytes >> (which >> i / 2 & 7) * 8 & 0xff) << i;
  return to;
}
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
}
template <typename T>
T atomicAdd(T* to, T value) {
  return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const dim3 grid = config->gridDim;
  const dim3 block = config->blockDim;
  // The only attribute that there is.
  const bool overlaps =
      config->numAttrs > 0 && config->attrs->val.programmaticStreamSerializationAllowed != 0;
  folio::emulate::Enqueue(config->stream, [=] {
    folio::emulate::RunGrid(
        {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
        [&] { kernel(Parameters(arguments)...); }, overlaps);
  });
  return cudaSuccess;
}

#endif  // FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_RUNTIME_H_
