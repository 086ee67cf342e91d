// What this machine can do at most, measured: the denominators of a benchmark's shares.
#ifndef FOLIO_TESTS_BENCH_MACHINE_LIMITS_H_
#define FOLIO_TESTS_BENCH_MACHINE_LIMITS_H_

#include <chrono>
#include <limits>

#include "kernels/cpu/thread_pool.h"

namespace folio::bench {

// Seconds of the fastest of `repeats` calls: what the code can do when nobody disturbs it.
template <typename Body>
double FastestSeconds(int repeats, Body body) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (took.count() < best) best = took.count();
  }
  return best;
}

// Bytes per second read from memory by all threads of the pool: a sum over an array far larger than
// the caches, as in STREAM (McCalpin), but reading only.
double ReadBandwidth(kernels::cpu::ThreadPool& pool);

// FLOP per second of all threads in the widest multiply-add there is: vdpbf16ps where the CPU has
// it, else float32 FMA, else 0 (unknown).
double PeakFlops(kernels::cpu::ThreadPool& pool);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_MACHINE_LIMITS_H_
