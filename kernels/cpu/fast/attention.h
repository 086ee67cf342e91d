// Paged attention over a KernelTable: who attends what, on which thread.
//
// Both kinds of rows gather kKeyTile slots at a time from the pages, pack them for the kernel, and
// let all query heads of the KV head use them. A prompt task takes a block of query rows over all
// their tiles. A decode task takes one row over kSplitTokens slots; the parts of a row are merged
// in order by whoever finishes last. Tiles and parts are counted from slot 0, so neither chunking
// nor company changes a row's sums.
#ifndef FOLIO_KERNELS_CPU_FAST_ATTENTION_H_
#define FOLIO_KERNELS_CPU_FAST_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/thread_pool.h"

namespace folio::kernels::cpu::fast {

// One call at a time.
class PagedAttention {
 public:
  explicit PagedAttention(const KernelTable& kernels) : kernels_(kernels) {}

  void Run(ThreadPool& pool, RowSplit split, const bf16* q, absl::Span<const AttentionRun> runs,
           const AttentionShape& shape, const PoolView& pages, bf16* out);

 private:
  struct PerThread {
    Scratch<uint32_t> keys;
    Scratch<uint32_t> values;
    Scratch<bf16> zeros;
    Scratch<float> state;
    Scratch<int32_t> valid;
  };
  // One part of a decode row, or a block of a prompt's rows, for one KV head.
  struct Task {
    uint32_t run;
    uint32_t kv_head;
    uint32_t first;  // decode: part; prompt: row in the run
    uint32_t count;  // decode: parts of the row; prompt: rows
  };
  struct Call {
    const bf16* q;
    absl::Span<const AttentionRun> runs;
    AttentionShape shape;
    const PoolView& pages;
    bf16* out;
  };

  void Decode(ThreadPool& pool, const Call& call);
  void DecodePart(const Call& call, const Task& task, PerThread& mine);
  void MergeRow(const Call& call, const Task& task);
  void Prompts(ThreadPool& pool, const Call& call);
  void PromptBlock(const Call& call, const Task& task, PerThread& mine);
  void PackTile(const Call& call, const AttentionRun& run, uint32_t kv_head, uint32_t first_slot,
                uint32_t end_slot, PerThread& mine);

  const KernelTable& kernels_;
  std::vector<PerThread> threads_;
  std::vector<Task> tasks_;
  Scratch<float> parts_;             // [row][kv_head][part]: max, sum, acc of its query heads
  std::vector<uint32_t> part_base_;  // [row] first part, counted over rows
  std::unique_ptr<std::atomic<uint32_t>[]> done_;  // [row][kv_head] parts finished
  size_t done_size_ = 0;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_ATTENTION_H_
