// Random numbers written by the device itself, for benchmarks: memory of a GPU, or of the host
// where the GPU reaches it.
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

// Enqueues: data[i] = a number of [low, high), by `seed` and i alone. `type` is what is stored.
absl::Status FillRandom(kernels::cuda::Stream stream, void* data, size_t count,
                        kernels::cuda::DataType type, const Uniform& numbers);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_RANDOM_FILL_H_
