// This header measures the matrix products of decode steps on a GPU, with all that belongs to them.
#ifndef FOLIO_TESTS_BENCH_GPU_PRODUCTS_H_
#define FOLIO_TESTS_BENCH_GPU_PRODUCTS_H_

#include <cstdint>

#include "tests/bench/gpu_decode.h"

namespace folio::bench {

// Writes a record "products" for a step of `rows` rows: the time of the products of all layers,
// with norms, SwiGLU and residuals, and the shares that reading the weights at the speed of a copy
// would take. It measures them as the worker does by default, which is by the kernels of small
// batches or with products in parts, and by cuBLASLt with a kernel for each of the rest. Each is
// one CUDA graph.
void RunProducts(const SpeedRun& run, uint32_t rows);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_GPU_PRODUCTS_H_
