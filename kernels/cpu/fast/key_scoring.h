// KeyScoring scores resident tokens by the directions of their keys, on a KernelTable.
//
// For ScoreResident a task is one KV head of one item. Its keys are read twice, once from memory
// for the sum of their directions and once from the cache against that sum. For ScoreUnrotated a
// task is a whole item, because its KV heads turn by the same angles, or several short items. There
// the sum is over a sample, and only the slots from the item's first one on are scored.
#ifndef FOLIO_KERNELS_CPU_FAST_KEY_SCORING_H_
#define FOLIO_KERNELS_CPU_FAST_KEY_SCORING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/ops.h"
#include "kernels/threads/thread_pool.h"

namespace folio::kernels::cpu::fast {

// One call at a time. Scratch memory is made by the first call that needs it and kept.
class KeyScoring {
 public:
  explicit KeyScoring(const KernelTable& kernels) : kernels_(kernels) {}

  // As CpuOps::ScoreResident and ScoreUnrotated.
  void Resident(ThreadPool& pool, absl::Span<const ResidentItem> runs, const PoolView& pages);
  void Unrotated(ThreadPool& pool, absl::Span<const UnrotatedItem> runs, const RopeTable& rope,
                 const PoolView& pages);

 private:
  struct PerThread {
    Scratch<float> floats;
    Scratch<bf16> zeros;
  };

  // False if there is nothing to write. Otherwise every thread has its scratch memory.
  bool Ready(const ThreadPool& pool, size_t runs, const PoolView& pages);
  void ScoreHead(const ResidentItem& run, uint32_t kv_head, const PoolView& pages, PerThread& mine);
  // The first of `runs`, while the next one's keys are fetched.
  void ScoreUnrotated(absl::Span<const UnrotatedItem> runs, const RopeTable& rope,
                      const PoolView& pages, PerThread& mine);

  const KernelTable& kernels_;
  std::vector<PerThread> threads_;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_KEY_SCORING_H_
