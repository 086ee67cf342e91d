// Key differences with the rotation undone, over a KernelTable. A task is one KV head of one run:
// first the sum of its sample's directions, then the scored keys against it.
#ifndef FOLIO_KERNELS_CPU_FAST_UNROTATED_H_
#define FOLIO_KERNELS_CPU_FAST_UNROTATED_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/thread_pool.h"

namespace folio::kernels::cpu::fast {

// One call at a time. Scratch memory is made by the first call that needs it and kept.
class UnrotatedScoring {
 public:
  explicit UnrotatedScoring(const KernelTable& kernels) : kernels_(kernels) {}

  // As CpuOps::ScoreUnrotated.
  void Score(ThreadPool& pool, absl::Span<const UnrotatedRun> runs, const RopeTable& rope,
             const PoolView& pages);

 private:
  void ScoreHead(const UnrotatedRun& run, uint32_t kv_head, const RopeTable& rope,
                 const PoolView& pages, float* direction) const;

  const KernelTable& kernels_;
  std::vector<Scratch<float>> directions_;  // by thread
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_UNROTATED_H_
