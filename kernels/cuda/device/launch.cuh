// This header starts kernels, and chooses an instance by a type that is known at run time. Host
// code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_LAUNCH_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_LAUNCH_CUH_

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/overlap.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

template <typename... Parameters, typename... Arguments>
absl::Status LaunchWith(absl::string_view name, cudaLaunchConfig_t config,
                        void (*kernel)(Parameters...), const Arguments&... arguments) {
  const dim3 grid = config.gridDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return absl::OkStatus();
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the kernel ", name, " was not started: ", cudaGetErrorString(error)));
}

inline cudaLaunchConfig_t LaunchConfig(Stream stream, dim3 grid, uint32_t threads) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  return config;
}

// Does nothing if the grid is empty.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(absl::string_view name, Stream stream, dim3 grid, uint32_t threads,
                    void (*kernel)(Parameters...), const Arguments&... arguments) {
  return LaunchWith(name, LaunchConfig(stream, grid, threads), kernel, arguments...);
}

// As Launch, for a kernel that waits for earlier ones itself (device/overlap.cuh).
template <typename... Parameters, typename... Arguments>
absl::Status LaunchOverlapping(absl::string_view name, Stream stream, dim3 grid, uint32_t threads,
                               void (*kernel)(Parameters...), const Arguments&... arguments) {
  cudaLaunchAttribute overlaps{};
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = LaunchConfig(stream, grid, threads);
  config.attrs = &overlaps;
  config.numAttrs = KernelsOverlap() ? 1 : 0;
  return LaunchWith(name, config, kernel, arguments...);
}

inline absl::Status Unserved(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("CUDA kernels: ", what));
}

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls call(TypeTag<T>()) for the stored type, which is bf16 or fp16.
template <typename Call>
absl::Status WithStorage(DataType type, Call&& call) {
  switch (type) {
    case DataType::kBf16:
      return call(TypeTag<bf16>());
    case DataType::kFp16:
      return call(TypeTag<fp16>());
    case DataType::kFloat32:
    case DataType::kE4M3:
      break;
  }
  return Unserved("the stored type must be bf16 or fp16");
}

// Calls call(TypeTag<In>(), TypeTag<T>()), where the input is float32 or has the stored type.
template <typename Call>
absl::Status WithInput(DataType in, DataType stored, Call&& call) {
  if (in != DataType::kFloat32 && in != stored) {
    return Unserved("an input is float32 or of its output's type");
  }
  return WithStorage(stored, [&](auto tag) {
    return in == DataType::kFloat32 ? call(TypeTag<float>(), tag) : call(tag, tag);
  });
}

constexpr uint32_t Blocks(uint32_t count, uint32_t block) { return (count + block - 1) / block; }

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_LAUNCH_CUH_
