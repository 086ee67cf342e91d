// This header lets the kernels of a stream overlap, by CUDA's programmatic dependent launch. The
// blocks of a kernel may start while the kernel before it still runs, so that the time to start
// them, and the first loads of what no kernel writes, cost nothing. Device code, which the
// emulator replaces (tests/emulator).
//
// A kernel that LaunchOverlapping starts calls LetNextKernelStart at its beginning. Each of its
// threads calls WaitForEarlierKernels before it reads or writes memory that another kernel of the
// stream writes or reads. That call returns when all of the kernel before has ended and its writes
// can be seen. The kernel before has waited likewise, so that the same holds for all earlier ones.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_OVERLAP_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_OVERLAP_CUH_

#include <cuda_runtime.h>

namespace folio::kernels::cuda::device {

// GPUs below 9.0 have no such instructions, and LaunchOverlapping does not overlap there.
__device__ __forceinline__ void WaitForEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel's blocks start once all blocks of this one have come here, as far as there is
// room for them beside this one's.
__device__ __forceinline__ void LetNextKernelStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_OVERLAP_CUH_
