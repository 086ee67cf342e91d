#include "kernels/cpu/fast/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "services/common/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kSplitTokens = 512;  // a multiple of kKeyTile
constexpr uint32_t kQueryBlock = 64;    // query rows of one prompt task
constexpr float kLog2E = 1.44269504088896340736f;

uint32_t DivUp(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

float Scale(uint32_t head_dim) { return kLog2E / std::sqrt(static_cast<float>(head_dim)); }

// Softmax state of some rows: max, then sums, then accumulators.
struct State {
  State(float* at, uint32_t rows, uint32_t lanes, uint32_t acc_stride)
      : sum(at), acc(sum + size_t{rows} * lanes), max(acc + size_t{rows} * acc_stride) {}

  static size_t Floats(uint32_t rows, uint32_t lanes, uint32_t acc_stride) {
    const size_t floats = size_t{rows} * (lanes + acc_stride + 1);
    return (floats + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
  }
  void Clear(uint32_t rows) const {
    std::fill(sum, max, 0.0f);
    std::fill_n(max, rows, -std::numeric_limits<float>::infinity());
  }

  float* sum;
  float* acc;
  float* max;
};

}  // namespace

void PagedAttention::Run(ThreadPool& pool, RowSplit split, const bf16* q,
                         absl::Span<const AttentionRun> runs, const AttentionShape& shape,
                         const PoolView& pages, bf16* out) {
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && shape.head_dim % 2 == 0);
  if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
  size_t decode_runs = 0;
  while (decode_runs < runs.size() && runs[decode_runs].first_row < split.decode_rows) {
    FOLIO_DCHECK(runs[decode_runs].rows == 1);
    ++decode_runs;
  }
  if (decode_runs > 0) Decode(pool, {q, runs.subspan(0, decode_runs), shape, pages, out});
  if (decode_runs < runs.size()) Prompts(pool, {q, runs.subspan(decode_runs), shape, pages, out});
}

// Packs slots [first_slot, first_slot + kKeyTile) of one KV head; those from end_slot on are zeros.
void PagedAttention::PackTile(const Call& call, const AttentionRun& run, uint32_t kv_head,
                              uint32_t first_slot, uint32_t end_slot, PerThread& mine) {
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t page_tokens = call.pages.geometry.page_tokens;
  const bf16* keys[kKeyTile];
  const bf16* values[kKeyTile];
  bf16* zeros = mine.zeros.Get(head_dim);
  std::fill_n(zeros, head_dim, bf16{});
  const uint32_t count = std::min(kKeyTile, end_slot - first_slot);
  for (uint32_t i = 0; i < count;) {
    const uint32_t slot = first_slot + i;
    const uint32_t page = run.pages[slot / page_tokens];
    const uint32_t offset = slot % page_tokens;
    const size_t at = (size_t{kv_head} * page_tokens + offset) * head_dim;
    const bf16* key = call.pages.keys(page) + at;
    const bf16* value = call.pages.values(page) + at;
    const uint32_t end = std::min(count, i + page_tokens - offset);
    for (; i < end; ++i, key += head_dim, value += head_dim) {
      keys[i] = key;
      values[i] = value;
    }
  }
  std::fill(keys + count, keys + kKeyTile, zeros);
  std::fill(values + count, values + kKeyTile, zeros);
  kernels_.pack_keys(keys, head_dim, mine.keys.Get(size_t{kKeyTile} * head_dim / 2));
  const size_t value_words = size_t{kKeyTile / 2} * AccStride(head_dim, kernels_.lanes);
  kernels_.pack_values(values, head_dim, mine.values.Get(value_words));
}

void PagedAttention::Decode(ThreadPool& pool, const Call& call) {
  const uint32_t kv_heads = call.shape.kv_heads;
  const uint32_t group = call.shape.heads / kv_heads;
  const uint32_t acc_stride = AccStride(call.shape.head_dim, kernels_.lanes);
  const size_t rows = call.runs.size();
  if (done_size_ < rows * kv_heads) {
    done_size_ = rows * kv_heads;
    done_ = std::make_unique<std::atomic<uint32_t>[]>(done_size_);
  }
  for (size_t i = 0; i < rows * kv_heads; ++i) done_[i].store(0, std::memory_order_relaxed);
  tasks_.clear();
  part_base_.clear();
  uint32_t parts = 0;
  for (uint32_t run = 0; run < rows; ++run) {
    FOLIO_DCHECK(call.runs[run].context > 0);
    const uint32_t count = DivUp(call.runs[run].context, kSplitTokens);
    part_base_.push_back(parts);
    parts += count;
    for (uint32_t part = 0; part < count; ++part) {
      for (uint32_t head = 0; head < kv_heads; ++head) tasks_.push_back({run, head, part, count});
    }
  }
  parts_.Get(parts * kv_heads * State::Floats(group, kernels_.lanes, acc_stride));
  pool.ParallelFor(static_cast<int>(tasks_.size()), [&](int i, int thread) {
    const Task& task = tasks_[i];
    DecodePart(call, task, threads_[thread]);
    std::atomic<uint32_t>& done = done_[task.run * kv_heads + task.kv_head];
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == task.count) MergeRow(call, task);
  });
}

void PagedAttention::DecodePart(const Call& call, const Task& task, PerThread& mine) {
  const AttentionRun& run = call.runs[task.run];
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  const uint32_t acc_stride = AccStride(head_dim, kernels_.lanes);
  const size_t floats = State::Floats(group, kernels_.lanes, acc_stride);
  const size_t part =
      (size_t{part_base_[task.run]} * call.shape.kv_heads) + task.kv_head * task.count + task.first;
  const State state(parts_.Get(0) + part * floats, group, kernels_.lanes, acc_stride);
  state.Clear(group);
  int32_t* valid = mine.valid.Get(group);
  const uint32_t end = std::min(run.context, (task.first + 1) * kSplitTokens);
  const size_t row = size_t{run.first_row} * call.shape.heads + task.kv_head * group;
  for (uint32_t slot = task.first * kSplitTokens; slot < end; slot += kKeyTile) {
    PackTile(call, run, task.kv_head, slot, end, mine);
    std::fill_n(valid, group, static_cast<int32_t>(end - slot));
    kernels_.flash({.q = call.q + row * head_dim,
                    .q_stride = head_dim,
                    .rows = group,
                    .head_dim = head_dim,
                    .keys = mine.keys.Get(0),
                    .values = mine.values.Get(0),
                    .valid = valid,
                    .scale = Scale(head_dim),
                    .max = state.max,
                    .sum = state.sum,
                    .acc = state.acc});
  }
}

void PagedAttention::MergeRow(const Call& call, const Task& task) {
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  const uint32_t acc_stride = AccStride(head_dim, kernels_.lanes);
  const size_t floats = State::Floats(group, kernels_.lanes, acc_stride);
  const size_t part =
      size_t{part_base_[task.run]} * call.shape.kv_heads + size_t{task.kv_head} * task.count;
  const State state(parts_.Get(0) + part * floats, group, kernels_.lanes, acc_stride);
  const size_t row =
      size_t{call.runs[task.run].first_row} * call.shape.heads + task.kv_head * group;
  for (uint32_t g = 0; g < group; ++g) {
    kernels_.merge({.max = state.max + g,
                    .sum = state.sum + size_t{g} * kernels_.lanes,
                    .acc = state.acc + size_t{g} * acc_stride,
                    .max_stride = floats,
                    .sum_stride = floats,
                    .acc_stride = floats,
                    .parts = task.count,
                    .head_dim = head_dim,
                    .out = call.out + (row + g) * head_dim});
  }
}

void PagedAttention::Prompts(ThreadPool& pool, const Call& call) {
  tasks_.clear();
  for (uint32_t run = 0; run < call.runs.size(); ++run) {
    const uint32_t rows = call.runs[run].rows;
    // The last blocks see the most keys: first, so that the threads end together.
    for (uint32_t block = DivUp(rows, kQueryBlock); block-- > 0;) {
      const uint32_t first = block * kQueryBlock;
      for (uint32_t head = 0; head < call.shape.kv_heads; ++head) {
        tasks_.push_back({run, head, first, std::min(kQueryBlock, rows - first)});
      }
    }
  }
  pool.ParallelFor(static_cast<int>(tasks_.size()),
                   [&](int i, int thread) { PromptBlock(call, tasks_[i], threads_[thread]); });
}

void PagedAttention::PromptBlock(const Call& call, const Task& task, PerThread& mine) {
  const AttentionRun& run = call.runs[task.run];
  const uint32_t head_dim = call.shape.head_dim;
  const uint32_t lanes = kernels_.lanes;
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  const uint32_t acc_stride = AccStride(head_dim, lanes);
  const uint32_t rows = task.count * group;  // [head of the group][query]
  const State state(mine.state.Get(State::Floats(rows, lanes, acc_stride)), rows, lanes,
                    acc_stride);
  state.Clear(rows);
  int32_t* valid = mine.valid.Get(task.count);
  // Row i of the run sees the first `context - rows + 1 + i` slots.
  const uint32_t seen_by_first = run.context - run.rows + 1 + task.first;
  const uint32_t end = seen_by_first + task.count - 1;
  const size_t q_stride = size_t{call.shape.heads} * head_dim;
  const size_t first_row = size_t{run.first_row} + task.first;
  for (uint32_t slot = 0; slot < end; slot += kKeyTile) {
    PackTile(call, run, task.kv_head, slot, end, mine);
    for (uint32_t i = 0; i < task.count; ++i) {
      valid[i] = static_cast<int32_t>(seen_by_first + i) - static_cast<int32_t>(slot);
    }
    for (uint32_t g = 0; g < group; ++g) {
      const size_t at = size_t{g} * task.count;
      const size_t head = size_t{task.kv_head} * group + g;
      kernels_.flash({.q = call.q + first_row * q_stride + head * head_dim,
                      .q_stride = q_stride,
                      .rows = task.count,
                      .head_dim = head_dim,
                      .keys = mine.keys.Get(0),
                      .values = mine.values.Get(0),
                      .valid = valid,
                      .scale = Scale(head_dim),
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
                    .max_stride = 0,
                    .sum_stride = 0,
                    .acc_stride = 0,
                    .parts = 1,
                    .head_dim = head_dim,
                    .out = call.out + row * q_stride + head * head_dim});
  }
}

}  // namespace folio::kernels::cpu::fast
