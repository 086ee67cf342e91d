// FillRandom lets the device write random numbers into its own memory, or into host memory that it
// can reach. It is for benchmarks.
#ifndef FOLIO_TESTS_BENCH_RANDOM_FILL_H_
#define FOLIO_TESTS_BENCH_RANDOM_FILL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"

namespace folio::bench {

struct Uniform {
  float low = 0, high = 1;
  uint64_t seed = 0;
};

// Enqueues data[i] = a number in [low, high) that depends only on `seed` and i. `type` is the
// stored type.
absl::Status FillRandom(kernels::cuda::Stream stream, void* data, size_t count,
                        kernels::cuda::DataType type, const Uniform& numbers);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_RANDOM_FILL_H_
