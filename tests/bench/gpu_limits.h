// This header measures the limits of a GPU, and the time of enqueued work.
#ifndef FOLIO_TESTS_BENCH_GPU_LIMITS_H_
#define FOLIO_TESTS_BENCH_GPU_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"

namespace folio::bench {

struct GpuLimits {
  double copy_bytes = 0;  // read and written per second by a copy
  double flops = 0;       // per second of a bf16 product
};

// Measures a copy of `copy_bytes` and a square product of `side`.
absl::StatusOr<GpuLimits> MeasureGpu(size_t copy_bytes, uint32_t side);

// Seconds of the stream per call of `work`, when `times` calls are enqueued behind each other. The
// best of three runs.
absl::StatusOr<double> SecondsEach(kernels::cuda::Stream stream, int times,
                                   absl::FunctionRef<absl::Status()> work);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_GPU_LIMITS_H_
