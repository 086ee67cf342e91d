// PagedAttention cuts attention over pages into tasks for threads and runs them on a KernelTable.
//
// A prompt task is a block of query rows of one KV head over all their tiles. It brings kKeyTile
// slots at a time from the pages into panels (TileStream) that all query heads of the KV head use.
// A decode task is one row, all heads, over kDecodePartTokens slots. It reads them where they lie
// if the shape allows it, otherwise by tiles. The thread that finishes a row's last part merges the
// parts in order. Tiles and parts are counted from slot 0, so that neither chunking nor the batch
// changes a row's sums.
#ifndef FOLIO_KERNELS_CPU_FAST_ATTENTION_H_
#define FOLIO_KERNELS_CPU_FAST_ATTENTION_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/fast/tile_stream.h"
#include "kernels/cpu/ops.h"
#include "kernels/threads/thread_pool.h"

namespace folio::kernels::cpu::fast {

// A dot product times log2(e) / sqrt(head_dim) is an exponent of 2.
inline float SoftmaxScale(uint32_t head_dim) {
  return 1.44269504088896340736f / std::sqrt(static_cast<float>(head_dim));
}

// Fills in how many keys of the tile at `slot` each of some rows of a run sees, and how many it
// leaves out at the front, at most a whole tile. `skip` is null for a run without windows.
inline void FillLimits(const AttentionItem& run, uint32_t first, uint32_t count, uint32_t slot,
                       int32_t* valid, int32_t* skip) {
  for (uint32_t i = 0; i < count; ++i) {
    valid[i] = static_cast<int32_t>(run.end_slot(first + i)) - static_cast<int32_t>(slot);
  }
  for (uint32_t i = 0; skip != nullptr && i < count; ++i) {
    const uint32_t begin = std::max(run.first_slot(first + i), slot) - slot;
    skip[i] = static_cast<int32_t>(std::min(begin, kKeyTile));
  }
}

// Softmax state of some rows (sums, accumulators, maxima) in the caller's memory.
struct SoftmaxState {
  SoftmaxState(float* at, uint32_t rows, uint32_t lanes, uint32_t acc_stride)
      : sum(at), acc(sum + size_t{rows} * lanes), max(acc + size_t{rows} * acc_stride) {}

  static size_t Floats(uint32_t rows, uint32_t lanes, uint32_t acc_stride) {
    const size_t floats = size_t{rows} * (lanes + acc_stride + 1);
    return (floats + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
  }
  void Clear(uint32_t rows) const {
    std::fill(sum, max, 0.0f);
    std::fill_n(max, rows, kNoPeak);
  }

  float* sum;
  float* acc;
  float* max;
};

// One call at a time.
class PagedAttention {
 public:
  explicit PagedAttention(const KernelTable& kernels) : kernels_(kernels) {}

  void Run(ThreadPool& pool, RowSplit split, const bf16* q, absl::Span<const AttentionItem> runs,
           const AttentionShape& shape, const PoolView& pages, bf16* out);

 private:
  struct DecodeTask {
    uint32_t run;
    uint32_t part;  // counted from the first with a slot that the row attends to
  };
  // Slots [begin, end) of a part, of which the row leaves out `skip` at the front.
  struct PartSlots {
    uint32_t begin, end, skip;
  };
  struct PerThread {
    TileStream tiles;
    Scratch<float> state;
    Scratch<int32_t> valid, skip;
    std::vector<const bf16*> blocks;
  };
  struct PromptTask {
    uint32_t run;
    uint32_t kv_head;
    uint32_t first;  // row in the run
    uint32_t count;  // rows
  };
  struct Call {
    const bf16* q;
    absl::Span<const AttentionItem> runs;
    AttentionShape shape;
    const PoolView& pages;
    bf16* out;
  };

  void Decode(ThreadPool& pool, const Call& call);
  // Slots are read from a multiple of `step` on.
  static PartSlots SlotsOf(const Call& call, const DecodeTask& task, uint32_t step);
  void AppendBlocks(const Call& call, const DecodeTask& task, size_t most,
                    std::vector<const bf16*>& out);
  SoftmaxState PartState(const Call& call, const DecodeTask& task);
  // `likely_next` is what this thread will probably do afterwards, or null; its pages are fetched.
  void DecodeInPlace(const Call& call, const DecodeTask& task, const DecodeTask* likely_next,
                     PerThread& mine);
  void DecodeByTiles(const Call& call, const DecodeTask& task, const DecodeTask* likely_next,
                     PerThread& mine);
  void MergeRow(const Call& call, uint32_t run);
  void Prompts(ThreadPool& pool, const Call& call);
  void PromptBlock(const Call& call, const PromptTask& task, PerThread& mine);

  const KernelTable& kernels_;
  std::vector<PerThread> threads_;
  std::vector<DecodeTask> decode_tasks_;
  std::vector<PromptTask> prompt_tasks_;
  Scratch<float> parts_;                           // [row][part]: softmax state of all heads
  std::vector<uint32_t> part_base_;                // [row] first part, counted over rows
  std::unique_ptr<std::atomic<uint32_t>[]> done_;  // [row] parts finished
  size_t done_size_ = 0;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_ATTENTION_H_
