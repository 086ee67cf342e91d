// This harness runs a tensor-parallel group on GPUs, or on the emulator, over a model in memory.
// Each rank has its own pages on its device, and all share one board in memory of the host.
#ifndef FOLIO_TESTS_GPU_CUDA_RANKS_HARNESS_H_
#define FOLIO_TESTS_GPU_CUDA_RANKS_HARNESS_H_

#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/types.h"
#include "services/model/cuda/graph_counts.h"
#include "services/model/source/stored_matrices.h"
#include "tests/model/tp_harness.h"

namespace folio::model::testing {

// How the ranks' steps run.
struct RankGraphs {
  bool tune = true;
  uint32_t own_rows = 8;  // as CudaHarnessOptions has it
  bool peers = true;      // short sums without NCCL where GPUs reach each other
  // Whether the rank runs its decode steps as graphs; null for all.
  std::function<bool(Rank)> wanted = nullptr;
  // Becomes each rank's counts at its end, all zero for one that was killed.
  std::vector<GraphCounts>* counts = nullptr;
  kernels::cuda::DataType type = kernels::cuda::DataType::kBf16;  // of the layers' matrices
  HeldWeights held = HeldWeights::kBfloat16;
};

// As RunGroup, of whose setup `ops` has no meaning. Threads share one process: with a GPU each, or
// on the emulation. Processes: on the emulation only, whose device may be used before a fork.
std::vector<std::string> RunGpuGroup(
    const GroupSetup& setup, const std::function<std::string(Stage&)>& script,
    const std::function<void(collective::Collective&)>& meddle = nullptr,
    const RankGraphs& graphs = {});

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_CUDA_RANKS_HARNESS_H_
