// This header measures the limits of this machine, which are the denominators of a benchmark's
// shares.
#ifndef FOLIO_TESTS_BENCH_MACHINE_LIMITS_H_
#define FOLIO_TESTS_BENCH_MACHINE_LIMITS_H_

#include <algorithm>
#include <chrono>
#include <limits>

#include "kernels/threads/thread_pool.h"

namespace folio::bench {

// Seconds since some moment.
using Stopwatch = double (*)();
inline double WallSeconds() {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return now.count();
}
// CPU time of the process, which stands still while other programs have its processors.
double CpuSeconds();

// Seconds of the fastest of `repeats` calls, which other programs on the machine disturbed least.
template <typename Body>
double FastestSeconds(int repeats, Body body, Stopwatch now = WallSeconds) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const double start = now();
    body();
    best = std::min(best, now() - start);
  }
  return best;
}

// Bytes per second that all threads of the pool read from memory. It sums an array that is far
// larger than the caches, as in STREAM (McCalpin), but only reads. CPU time fits one thread alone.
double ReadBandwidth(kernels::ThreadPool& pool, Stopwatch now = WallSeconds);

// FLOP per second of all threads with the widest multiply-add of the CPU, which is vdpbf16ps,
// float32 FMA, or 0 if it has neither (unknown).
double PeakFlops(kernels::ThreadPool& pool);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_MACHINE_LIMITS_H_
