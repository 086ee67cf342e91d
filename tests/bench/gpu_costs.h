// This header measures prompts on a GPU, the cost of eviction beside prompts and beside decode, and
// the setting of the PagedEviction paper (arXiv 2509.04377).
#ifndef FOLIO_TESTS_BENCH_GPU_COSTS_H_
#define FOLIO_TESTS_BENCH_GPU_COSTS_H_

#include <cstdint>
#include <vector>

#include "tests/bench/gpu_decode.h"

namespace folio::bench {

// Writes a record "prefill" for a computed prompt of `tokens` tokens. With a budget it also has the
// shares of scoring, deciding and compacting.
void RunPrefill(const SpeedRun& run, uint32_t tokens, uint32_t budget);

// Writes a record "costs" with the shares of scoring and deciding in the cell's decode, and the
// extra time of a step that waits for its plan.
void RunCosts(const SpeedRun& run, const DecodeCell& cell);

struct PaperSetting {
  uint32_t sequences = 64;
  uint32_t input = 1024;
  uint32_t output = 8192;
  std::vector<uint32_t> budgets = {0, 4096, 2048, 1024, 512, 256};  // 0: the full cache
};
// Writes a record "paper" per budget with tokens per second over all of the output. Steps are
// measured at a few lengths and the time between them is interpolated. The record says how many
// steps ran.
void RunPaper(const SpeedRun& run, const PaperSetting& setting);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_GPU_COSTS_H_
