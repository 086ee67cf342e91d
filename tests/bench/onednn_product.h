// The peer of our prompt products: oneDNN's bf16 matmul (float32 sums) at the same shapes, on the
// same threads. oneDNN is kept to one thread per call; the rows are cut over ours.
#ifndef FOLIO_TESTS_BENCH_ONEDNN_PRODUCT_H_
#define FOLIO_TESTS_BENCH_ONEDNN_PRODUCT_H_

#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace folio::bench {

// Seconds of the fastest of `repeats` products [rows, k] x [k, n]; weights in the layout oneDNN
// chooses, primitives made beforehand. Negative where oneDNN has no such product on this CPU.
double OneDnnSeconds(kernels::cpu::ThreadPool& pool, uint32_t rows, uint32_t n, uint32_t k,
                     int repeats);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_ONEDNN_PRODUCT_H_
