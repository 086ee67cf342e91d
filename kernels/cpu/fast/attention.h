// Paged attention over a KernelTable: who attends what, on which thread.
//
// Both kinds of rows take kKeyTile slots at a time from the pages (TileStream) and let all query
// heads of the KV head use them. A prompt task is a block of query rows of one KV head over all
// their tiles. A decode task is one row, all heads, over kSplitTokens slots; the parts of a row are
// merged in order by whoever finishes last. Tiles and parts are counted from slot 0, so neither
// chunking nor company changes a row's sums.
#ifndef FOLIO_KERNELS_CPU_FAST_ATTENTION_H_
#define FOLIO_KERNELS_CPU_FAST_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/fast/tile_stream.h"
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
    TileStream tiles;
    Scratch<float> state;
    Scratch<int32_t> valid;
  };
  struct DecodeTask {
    uint32_t run;
    uint32_t part;
  };
  struct PromptTask {
    uint32_t run;
    uint32_t kv_head;
    uint32_t first;  // row in the run
    uint32_t count;  // rows
  };
  struct Call {
    const bf16* q;
    absl::Span<const AttentionRun> runs;
    AttentionShape shape;
    const PoolView& pages;
    bf16* out;
  };

  void Decode(ThreadPool& pool, const Call& call);
  void DecodePart(const Call& call, const DecodeTask& task, const DecodeTask* likely_next,
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
