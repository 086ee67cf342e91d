// WindowScoring scores resident tokens by window attention on a KernelTable, in three rounds.
// First, blocks of query rows find the maximum and the sum of their softmax over all tiles of keys.
// Then each group of kSlotTask slots gets the shares of all query rows, which are computed again
// instead of kept, so that memory grows with the context and not with the window. At last
// neighbours are pooled. One thread adds up each row's sum and each slot's mass, in a fixed order.
#ifndef FOLIO_KERNELS_CPU_FAST_WINDOW_SCORING_H_
#define FOLIO_KERNELS_CPU_FAST_WINDOW_SCORING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/fast/tile_stream.h"
#include "kernels/cpu/ops.h"
#include "kernels/threads/thread_pool.h"

namespace folio::kernels::cpu::fast {

// One call at a time. Scratch memory is made by the first call that needs it and kept.
class WindowScoring {
 public:
  explicit WindowScoring(const KernelTable& kernels) : kernels_(kernels) {}

  // As CpuOps::ScoreWindow.
  void Score(ThreadPool& pool, const bf16* q, absl::Span<const WindowItem> runs,
             const AttentionShape& shape, const PoolView& pages);

 private:
  struct PerThread {
    TileStream tiles;
    Scratch<float> floats;
    Scratch<int32_t> valid;
  };
  // Part of a run: query rows of one KV head, tiles of one KV head, or slots of all.
  struct Task {
    uint32_t run;
    uint32_t kv_head;
    uint32_t first;
    uint32_t end;
  };
  // Offsets of an item's numbers in `rows_` and `mass_`.
  struct Place {
    size_t rows;  // [head][row] maxima, then as many weights
    size_t mass;  // [kv_head][mass_stride], slot 0 at the run's `neighbours`
    uint32_t mass_stride;
  };
  struct Call {
    const bf16* q;
    absl::Span<const WindowItem> runs;
    AttentionShape shape;
    const PoolView& pages;
  };

  void Build(const Call& call);
  // Tasks [0, counts[run]) in steps of `step`, for each of `heads`.
  template <typename Count>
  void ListTasks(const Call& call, uint32_t heads, uint32_t step, Count count);
  void SumRows(const Call& call, const Task& task, PerThread& mine);
  void AddMass(const Call& call, const Task& task, PerThread& mine);
  void Pool(const Call& call, const Task& task);
  // The tile's view of query rows [first, first + count) of one head.
  FlashTile Queries(const Call& call, const Task& task, uint32_t head, uint32_t first,
                    uint32_t count, PerThread& mine) const;

  const KernelTable& kernels_;
  std::vector<PerThread> threads_;
  std::vector<Task> tasks_;
  std::vector<Place> places_;  // of the runs
  Scratch<float> rows_;
  Scratch<float> mass_;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_WINDOW_SCORING_H_
