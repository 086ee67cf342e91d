// Scores of resident tokens by their keys' directions, over a KernelTable.
//
// With the keys as they are a task is one KV head of one run, whose keys are read twice: once for
// the sum of their directions, from memory, once against it, from the cache. With the rotation
// undone a task is a whole run, whose KV heads turn by the same angles, or several that are short;
// the sum is a sample's, and only the slots from a first one on are scored.
#ifndef FOLIO_KERNELS_CPU_FAST_KEY_SCORING_H_
#define FOLIO_KERNELS_CPU_FAST_KEY_SCORING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/thread_pool.h"

namespace folio::kernels::cpu::fast {

// One call at a time. Scratch memory is made by the first call that needs it and kept.
class KeyScoring {
 public:
  explicit KeyScoring(const KernelTable& kernels) : kernels_(kernels) {}

  // As CpuOps::ScoreResident and ScoreUnrotated.
  void Resident(ThreadPool& pool, absl::Span<const ResidentRun> runs, const PoolView& pages);
  void Unrotated(ThreadPool& pool, absl::Span<const UnrotatedRun> runs, const RopeTable& rope,
                 const PoolView& pages);

 private:
  struct PerThread {
    Scratch<float> floats;
    Scratch<bf16> zeros;
  };

  // Whether there is anything to write; if so, scratch memory for every thread.
  bool Ready(const ThreadPool& pool, size_t runs, const PoolView& pages);
  void ScoreHead(const ResidentRun& run, uint32_t kv_head, const PoolView& pages, PerThread& mine);
  // The first of `runs`, while the next one's keys are fetched.
  void ScoreUnrotated(absl::Span<const UnrotatedRun> runs, const RopeTable& rope,
                      const PoolView& pages, PerThread& mine);

  const KernelTable& kernels_;
  std::vector<PerThread> threads_;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_KEY_SCORING_H_
