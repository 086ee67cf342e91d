// Prompts on a GPU, what eviction costs beside them and beside decode, and the setting of the paper
// on PagedEviction (arXiv 2509.04377).
#ifndef FOLIO_TESTS_BENCH_GPU_COSTS_H_
#define FOLIO_TESTS_BENCH_GPU_COSTS_H_

#include <cstdint>
#include <vector>

#include "tests/bench/gpu_decode.h"

namespace folio::bench {

// A record "prefill": a prompt of so many tokens, computed; and, with a budget, what of its time
// was scoring, deciding and compacting.
void RunPrefill(const SpeedRun& run, uint32_t tokens, uint32_t budget);

// A record "costs": what of the cell's decode was scoring and deciding, and what a step that waits
// for its plan takes longer.
void RunCosts(const SpeedRun& run, const DecodeCell& cell);

struct PaperSetting {
  uint32_t sequences = 64;
  uint32_t input = 1024;
  uint32_t output = 8192;
  std::vector<uint32_t> budgets = {0, 4096, 2048, 1024, 512, 256};  // 0: the full cache
};
// A record "paper" per budget: tokens per second over all of the output. Steps are measured at a
// few lengths and the time between these is interpolated; the record says how many were run.
void RunPaper(const SpeedRun& run, const PaperSetting& setting);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_GPU_COSTS_H_
