// WindowScoring scores resident tokens by window attention on a KernelTable. A query's share of a
// token is known once its maximum and its sum over all tokens are. So the exponentials of a block
// of query rows are kept: groups of kSlotTask slots compute them, each with maxima and sums of its
// own, then the rows' weights follow from these, and then the groups add up their slots' mass. The
// block has as many rows as kKeptFloats holds, so that memory does not grow with the window. At
// last neighbours are pooled. One thread adds up each row's sum and each slot's mass, in a fixed
// order.
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
    Scratch<float> sums;
    Scratch<int32_t> valid;
  };
  // Query rows [first, first + count) of a window, in all heads. Their numbers are in the scratch
  // memory below, where `rows` is those of all heads of a KV head: [group, count].
  struct Block {
    const WindowItem& window;
    const bf16* q;
    const AttentionShape& shape;
    const PoolView& pages;
    uint32_t first;
    uint32_t count;
    uint32_t rows;
    uint32_t tiles;   // of keys
    uint32_t groups;  // of slots

    uint32_t begin(uint32_t group) const;  // slots
    uint32_t end(uint32_t group) const;
    size_t tile(uint32_t kv_head, uint32_t slot) const {
      return size_t{kv_head} * tiles + slot / kKeyTile;
    }
  };

  void ScoreRows(ThreadPool& pool, const Block& block);
  void KeepShares(const Block& block, uint32_t kv_head, uint32_t group, PerThread& mine);
  void Weigh(const Block& block, uint32_t kv_head);
  void AddMass(const Block& block, uint32_t kv_head, uint32_t group);
  void Pool(const Block& block, uint32_t first, uint32_t end);

  const KernelTable& kernels_;
  std::vector<PerThread> threads_;
  Scratch<float> kept_;       // [kv_heads, tiles, rows, kKeyTile] exponentials
  Scratch<float> peaks_;      // [kv_heads, tiles, rows] the maximum that they are relative to
  Scratch<float> group_max_;  // [kv_heads, groups, rows]
  Scratch<float> group_sum_;
  Scratch<float> max_;     // [kv_heads, rows]
  Scratch<float> weight_;  // likewise
  Scratch<float> mass_;    // [kv_heads, mass_stride_], slot 0 at the window's `neighbours`
  size_t mass_stride_ = 0;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_WINDOW_SCORING_H_
