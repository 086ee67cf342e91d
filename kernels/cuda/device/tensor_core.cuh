// This header has the product of small tiles on tensor cores, by one warp. Device code, which the
// emulator replaces (tests/emulator).
#ifndef FOLIO_KERNELS_CUDA_DEVICE_TENSOR_CORE_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_TENSOR_CORE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace folio::kernels::cuda::device {

// c += a * b, with float32 sums. a is bf16 [16, 16], b is bf16 [16, 8] and c is float32 [16, 8].
// All lanes of a warp take part, and each holds a part of the tiles. With g = lane / 4 and t =
// lane % 4, and two numbers in each register of a and b, the lower half first:
//   a: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with its right neighbour
//   b: (2t, g), (2t + 8, g), each with its lower neighbour
//   c: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
// This is mma.m16n8k16 of PTX, which GPUs have from 8.0 on.
__device__ __forceinline__ void MultiplyTiles(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                              float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_TENSOR_CORE_CUH_
