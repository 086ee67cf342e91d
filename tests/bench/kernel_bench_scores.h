// The scoring kernels' share of what they are part of, at the shapes of the reference model.
#ifndef FOLIO_TESTS_BENCH_KERNEL_BENCH_SCORES_H_
#define FOLIO_TESTS_BENCH_KERNEL_BENCH_SCORES_H_

#include "kernels/cpu/ops.h"

namespace folio::bench {

// Prints what scores at append cost a row, and what a refresh of key differences costs beside the
// machine's read `bandwidth` (bytes/s).
void BenchScores(const kernels::cpu::CpuOps& ops, kernels::cpu::ThreadPool& threads,
                 double bandwidth);

// Seconds that `window` queries over `context` tokens cost, all layers; prints them.
double BenchWindow(const kernels::cpu::CpuOps& ops, kernels::cpu::ThreadPool& threads,
                   uint32_t window, uint32_t context);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_KERNEL_BENCH_SCORES_H_
