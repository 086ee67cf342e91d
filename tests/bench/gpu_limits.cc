#include "tests/bench/gpu_limits.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/bench/random_fill.h"

namespace folio::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::DataType;
using cuda::Tensor;

absl::StatusOr<double> CopyBandwidth(cuda::Stream stream, cuda::DeviceMemory& memory,
                                     size_t bytes) {
  const auto from = memory.Allocate(bytes, "what is copied");
  if (!from.ok()) return from.status();
  const auto to = memory.Allocate(bytes, "its copy");
  if (!to.ok()) return to.status();
  absl::Status filled =
      FillRandom(stream, from->as<>(), bytes / 4, DataType::kFloat32, {.seed = 1});
  if (!filled.ok()) return filled;
  const auto seconds = SecondsEach(stream, 10, [&] {
    const cudaError_t error =
        cudaMemcpyAsync(to->as<>(), from->as<>(), bytes, cudaMemcpyDeviceToDevice, stream);
    if (error == cudaSuccess) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("copy: ", cudaGetErrorString(error)));
  });
  if (!seconds.ok()) return seconds.status();
  return 2.0 * static_cast<double>(bytes) / *seconds;
}

// Of random numbers: with zeros a GPU draws less power and is faster.
absl::StatusOr<double> ProductFlops(cuda::Stream stream, cuda::DeviceMemory& memory,
                                    uint32_t side) {
  const size_t count = size_t{side} * side;
  const auto space = memory.Allocate(cuda::Gemm::kWorkspaceBytes, "the workspace of a product");
  const auto numbers = memory.Allocate(3 * count * 2, "a product");
  for (const absl::Status& status : {space.status(), numbers.status()}) {
    if (!status.ok()) return status;
  }
  auto* first = numbers->as<uint16_t>();
  const auto tensor = [&](uint32_t i) {
    return Tensor{first + i * count, DataType::kBf16, side, side, side};
  };
  absl::Status status =
      FillRandom(stream, first, 2 * count, DataType::kBf16, {.low = -1, .high = 1, .seed = 2});
  auto gemm = cuda::Gemm::Create(space->as<void>(), cuda::Gemm::kWorkspaceBytes);
  if (!gemm.ok()) return gemm.status();
  status.Update((*gemm)->Tune(stream, tensor(0), tensor(1), tensor(2), false));
  if (!status.ok()) return status;
  const auto seconds = SecondsEach(stream, 10, [&] {
    return (*gemm)->Multiply(stream, tensor(0), tensor(1), tensor(2), false);
  });
  if (!seconds.ok()) return seconds.status();
  return 2.0 * static_cast<double>(count) * side / *seconds;
}

}  // namespace

absl::StatusOr<double> SecondsEach(cuda::Stream stream, int times,
                                   absl::FunctionRef<absl::Status()> work) {
  double best = 0;
  for (int round = 0; round < 4; ++round) {  // the first warms up
    absl::Status status = cuda::WaitFor(stream);
    const absl::Time start = absl::Now();
    for (int i = 0; i < times && status.ok(); ++i) status = work();
    status.Update(cuda::WaitFor(stream));
    if (!status.ok()) return status;
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start) / times;
    if (round == 1 || (round > 1 && seconds < best)) best = seconds;
  }
  return best;
}

absl::StatusOr<GpuLimits> MeasureGpu(size_t copy_bytes, uint32_t side) {
  cuda::DeviceMemory memory(0);
  const auto stream = cuda::OwnedStream::Create();
  if (!stream.ok()) return stream.status();
  const auto bandwidth = CopyBandwidth(stream->get(), memory, copy_bytes);
  if (!bandwidth.ok()) return bandwidth.status();
  const auto flops = ProductFlops(stream->get(), memory, side);
  if (!flops.ok()) return flops.status();
  return GpuLimits{*bandwidth, *flops};
}

}  // namespace folio::bench
