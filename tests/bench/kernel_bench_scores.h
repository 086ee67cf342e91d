// This header measures the scoring kernels' share of a step, at the shapes of the reference model.
#ifndef FOLIO_TESTS_BENCH_KERNEL_BENCH_SCORES_H_
#define FOLIO_TESTS_BENCH_KERNEL_BENCH_SCORES_H_

#include "kernels/cpu/ops.h"

namespace folio::bench {

// Prints the cost per row of scores at append, and the cost of new key differences beside the
// machine's read `bandwidth` (bytes/s).
void BenchScores(const kernels::cpu::CpuOps& ops, kernels::ThreadPool& threads, double bandwidth);

// Prints and returns the seconds that `window` queries over `context` tokens take, in all layers.
double BenchWindow(const kernels::cpu::CpuOps& ops, kernels::ThreadPool& threads, uint32_t window,
                   uint32_t context);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_KERNEL_BENCH_SCORES_H_
