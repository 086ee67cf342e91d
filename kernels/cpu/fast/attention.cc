#include "kernels/cpu/fast/attention.h"

#include <algorithm>

#include "kernels/cpu/fast/div_up.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

static_assert(kDecodePartTokens % kKeyTile == 0 && kDecodePartTokens % kMaxLanes == 0);
constexpr uint32_t kQueryBlock = 128;  // query rows of one prompt task

// The block of `lanes` keys or values that starts at `slot`, which a page holds whole.
const bf16* BlockAt(const PoolView& pages, const AttentionItem& run, uint32_t slot, bool values,
                    uint32_t kv_head) {
  const uint32_t page_tokens = pages.geometry.page_tokens;
  const uint32_t page = run.pages[slot / page_tokens];
  const size_t row = size_t{kv_head} * page_tokens + slot % page_tokens;
  return (values ? pages.values(page) : pages.keys(page)) + row * pages.geometry.head_dim;
}

}  // namespace

// A part's first `most` blocks as DecodePart wants them, one KV head after another.
void PagedAttention::AppendBlocks(const Call& call, const DecodeTask& task, size_t most,
                                  std::vector<const bf16*>& out) {
  const AttentionItem& run = call.runs[task.run];
  const PartSlots slots = SlotsOf(call, task, kernels_.lanes);
  for (uint32_t kv_head = 0; kv_head < call.shape.kv_heads; ++kv_head) {
    for (const bool values : {false, true}) {
      for (uint32_t slot = slots.begin; slot < slots.end; slot += kernels_.lanes) {
        if (most-- == 0) return;
        out.push_back(BlockAt(call.pages, run, slot, values, kv_head));
      }
    }
  }
}

void PagedAttention::Run(ThreadPool& pool, RowSplit split, const bf16* q,
                         absl::Span<const AttentionItem> runs, const AttentionShape& shape,
                         const PoolView& pages, bf16* out) {
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && shape.head_dim % 2 == 0);
  if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
  for (PerThread& thread : threads_) thread.tiles.Prepare(kernels_, pages);
  size_t decode_runs = 0;
  while (decode_runs < runs.size() && runs[decode_runs].first_row < split.decode_rows) {
    FOLIO_DCHECK(runs[decode_runs].rows == 1);
    ++decode_runs;
  }
  if (decode_runs > 0) Decode(pool, {q, runs.subspan(0, decode_runs), shape, pages, out});
  if (decode_runs < runs.size()) Prompts(pool, {q, runs.subspan(decode_runs), shape, pages, out});
}

void PagedAttention::Decode(ThreadPool& pool, const Call& call) {
  const uint32_t acc_stride = AccStride(call.shape.head_dim, kernels_.lanes);
  const size_t rows = call.runs.size();
  if (done_size_ < rows) {
    done_size_ = rows;
    done_ = std::make_unique<std::atomic<uint32_t>[]>(done_size_);
  }
  decode_tasks_.clear();
  part_base_.clear();
  for (uint32_t run = 0; run < rows; ++run) {
    FOLIO_DCHECK(call.runs[run].context > 0);
    done_[run].store(0, std::memory_order_relaxed);
    part_base_.push_back(static_cast<uint32_t>(decode_tasks_.size()));
    const uint32_t count = DivUp(call.runs[run].context, kDecodePartTokens) -
                           call.runs[run].first_slot(0) / kDecodePartTokens;
    for (uint32_t part = 0; part < count; ++part) decode_tasks_.push_back({run, part});
  }
  part_base_.push_back(static_cast<uint32_t>(decode_tasks_.size()));
  parts_.Get(decode_tasks_.size() *
             SoftmaxState::Floats(call.shape.heads, kernels_.lanes, acc_stride));
  const int tasks = static_cast<int>(decode_tasks_.size());
  const bool in_place = DecodesInPlace(call.pages.geometry.page_tokens, kernels_.lanes,
                                       call.shape.head_dim, call.shape.heads / call.shape.kv_heads);
  pool.ParallelFor(tasks, [&](int i, int thread) {
    const DecodeTask& task = decode_tasks_[i];
    const int likely = i + pool.threads();
    const DecodeTask* next = likely < tasks ? &decode_tasks_[likely] : nullptr;
    in_place ? DecodeInPlace(call, task, next, threads_[thread])
             : DecodeByTiles(call, task, next, threads_[thread]);
    const uint32_t parts = part_base_[task.run + 1] - part_base_[task.run];
    if (done_[task.run].fetch_add(1, std::memory_order_acq_rel) + 1 == parts) {
      MergeRow(call, task.run);
    }
  });
}

PagedAttention::PartSlots PagedAttention::SlotsOf(const Call& call, const DecodeTask& task,
                                                  uint32_t step) {
  const AttentionItem& run = call.runs[task.run];
  const uint32_t first = run.first_slot(0);
  const uint32_t part = (first / kDecodePartTokens + task.part) * kDecodePartTokens;
  const uint32_t begin = std::max(part, first / step * step);
  return {begin, std::min(run.context, part + kDecodePartTokens), std::max(first, begin) - begin};
}

SoftmaxState PagedAttention::PartState(const Call& call, const DecodeTask& task) {
  const uint32_t acc_stride = AccStride(call.shape.head_dim, kernels_.lanes);
  const size_t floats = SoftmaxState::Floats(call.shape.heads, kernels_.lanes, acc_stride);
  return {parts_.Get(0) + (part_base_[task.run] + task.part) * floats, call.shape.heads,
          kernels_.lanes, acc_stride};
}

void PagedAttention::DecodeInPlace(const Call& call, const DecodeTask& task,
                                   const DecodeTask* likely_next, PerThread& mine) {
  const uint32_t lanes = kernels_.lanes;
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  const AttentionItem& run = call.runs[task.run];
  const PartSlots slots = SlotsOf(call, task, lanes);
  std::vector<const bf16*>& blocks = mine.blocks;
  blocks.clear();
  AppendBlocks(call, task, SIZE_MAX, blocks);
  const size_t used = blocks.size();
  if (likely_next != nullptr) AppendBlocks(call, *likely_next, kFetchBlocks, blocks);
  blocks.resize(used + kFetchBlocks, blocks.back());

  const SoftmaxState state = PartState(call, task);
  for (uint32_t kv_head = 0; kv_head < call.shape.kv_heads; ++kv_head) {
    const uint32_t head = kv_head * group;
    const size_t first = used / call.shape.kv_heads * kv_head;
    kernels_.decode({.q = call.q + (size_t{run.first_row} * call.shape.heads + head) * head_dim,
                     .rows = group,
                     .head_dim = head_dim,
                     .count = slots.end - slots.begin,
                     .skip = slots.skip,
                     .blocks = blocks.data() + first,
                     .scale = SoftmaxScale(head_dim),
                     .max = state.max + head,
                     .sum = state.sum + size_t{head} * lanes,
                     .acc = state.acc + size_t{head} * head_dim});
  }
}

void PagedAttention::DecodeByTiles(const Call& call, const DecodeTask& task,
                                   const DecodeTask* likely_next, PerThread& mine) {
  const auto place = [&](const DecodeTask& of, uint32_t kv_head, uint32_t tile) {
    const PartSlots slots = SlotsOf(call, of, kKeyTile);
    return TilePlace{call.runs[of.run].pages, kv_head, slots.begin + tile * kKeyTile, slots.end};
  };
  const uint32_t lanes = kernels_.lanes;
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t heads = call.shape.heads;
  const uint32_t group = heads / call.shape.kv_heads;
  const uint32_t acc_stride = AccStride(head_dim, lanes);
  const SoftmaxState state = PartState(call, task);
  state.Clear(heads);
  int32_t* valid = mine.valid.Get(group);
  int32_t* skip = mine.skip.Get(group);
  const uint32_t skipped = SlotsOf(call, task, kKeyTile).skip;  // in the first tile
  const TilePlace first = place(task, 0, 0);
  const uint32_t tiles = DivUp(first.end - first.slot, kKeyTile);
  const uint32_t steps = tiles * call.shape.kv_heads;
  mine.tiles.Start(first);
  for (uint32_t step = 0; step < steps; ++step) {
    TilePlace next = {};
    if (step + 1 < steps) {
      next = place(task, (step + 1) / tiles, (step + 1) % tiles);
    } else if (likely_next != nullptr) {
      next = place(*likely_next, 0, 0);
    }
    mine.tiles.Next(next.table != nullptr ? &next : nullptr);
    const uint32_t head = step / tiles * group;
    const uint32_t slot = first.slot + step % tiles * kKeyTile;
    std::fill_n(valid, group, static_cast<int32_t>(first.end - slot));
    std::fill_n(skip, group, static_cast<int32_t>(skipped));
    const bool skips = skipped > 0 && slot == first.slot;
    kernels_.flash({.q = call.q + (size_t{call.runs[task.run].first_row} * heads + head) * head_dim,
                    .q_stride = head_dim,
                    .rows = group,
                    .head_dim = head_dim,
                    .keys = mine.tiles.keys(),
                    .values = mine.tiles.values(),
                    .valid = valid,
                    .skip = skips ? skip : nullptr,
                    .scale = SoftmaxScale(head_dim),
                    .next = mine.tiles.next_values(),
                    .max = state.max + head,
                    .sum = state.sum + size_t{head} * lanes,
                    .acc = state.acc + size_t{head} * acc_stride});
  }
}

void PagedAttention::MergeRow(const Call& call, uint32_t run) {
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t heads = call.shape.heads;
  const uint32_t acc_stride = AccStride(head_dim, kernels_.lanes);
  const size_t floats = SoftmaxState::Floats(heads, kernels_.lanes, acc_stride);
  const SoftmaxState state = PartState(call, {run, 0});
  for (uint32_t h = 0; h < heads; ++h) {
    kernels_.merge({.max = state.max + h,
                    .sum = state.sum + size_t{h} * kernels_.lanes,
                    .acc = state.acc + size_t{h} * acc_stride,
                    .stride = floats,
                    .parts = part_base_[run + 1] - part_base_[run],
                    .head_dim = head_dim,
                    .out = call.out + (size_t{call.runs[run].first_row} * heads + h) * head_dim});
  }
}

void PagedAttention::Prompts(ThreadPool& pool, const Call& call) {
  prompt_tasks_.clear();
  for (uint32_t run = 0; run < call.runs.size(); ++run) {
    const uint32_t rows = call.runs[run].rows;
    // The last blocks see the most keys, so they start first and the threads end together.
    for (uint32_t block = DivUp(rows, kQueryBlock); block-- > 0;) {
      const uint32_t first = block * kQueryBlock;
      for (uint32_t head = 0; head < call.shape.kv_heads; ++head) {
        prompt_tasks_.push_back({run, head, first, std::min(kQueryBlock, rows - first)});
      }
    }
  }
  pool.ParallelFor(static_cast<int>(prompt_tasks_.size()), [&](int i, int thread) {
    PromptBlock(call, prompt_tasks_[i], threads_[thread]);
  });
}

void PagedAttention::PromptBlock(const Call& call, const PromptTask& task, PerThread& mine) {
  const AttentionItem& run = call.runs[task.run];
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t lanes = kernels_.lanes;
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  const uint32_t acc_stride = AccStride(head_dim, lanes);
  const uint32_t rows = task.count * group;  // [head of the group][query]
  const SoftmaxState state(mine.state.Get(SoftmaxState::Floats(rows, lanes, acc_stride)), rows,
                           lanes, acc_stride);
  state.Clear(rows);
  int32_t* valid = mine.valid.Get(task.count);
  int32_t* skip =
      run.first_slot(task.first + task.count - 1) > 0 ? mine.skip.Get(task.count) : nullptr;
  const uint32_t end = run.end_slot(task.first + task.count - 1);
  const size_t q_stride = size_t{call.shape.heads} * head_dim;
  const size_t first_row = size_t{run.first_row} + task.first;
  const uint32_t begin = run.first_slot(task.first) / kKeyTile * kKeyTile;
  TilePlace next{run.pages, task.kv_head, begin, end};
  mine.tiles.Start(next);
  for (uint32_t slot = begin; slot < end; slot += kKeyTile) {
    next.slot = slot + kKeyTile;
    mine.tiles.Next(next.slot < end ? &next : nullptr);
    FillLimits(run, task.first, task.count, slot, valid, skip);
    for (uint32_t g = 0; g < group; ++g) {
      const size_t at = size_t{g} * task.count;
      const size_t head = size_t{task.kv_head} * group + g;
      kernels_.flash({.q = call.q + first_row * q_stride + head * head_dim,
                      .q_stride = q_stride,
                      .rows = task.count,
                      .head_dim = head_dim,
                      .keys = mine.tiles.keys(),
                      .values = mine.tiles.values(),
                      .valid = valid,
                      .skip = skip,
                      .scale = SoftmaxScale(head_dim),
                      .next = g == 0 ? mine.tiles.next_values() : nullptr,
                      .max = state.max + at,
                      .sum = state.sum + at * lanes,
                      .acc = state.acc + at * acc_stride});
    }
  }
  for (uint32_t r = 0; r < rows; ++r) {
    const size_t row = first_row + r % task.count;
    const size_t head = size_t{task.kv_head} * group + r / task.count;
    kernels_.merge({.max = state.max + r,
                    .sum = state.sum + size_t{r} * lanes,
                    .acc = state.acc + size_t{r} * acc_stride,
                    .stride = 0,
                    .parts = 1,
                    .head_dim = head_dim,
                    .out = call.out + row * q_stride + head * head_dim});
  }
}

}  // namespace folio::kernels::cpu::fast
