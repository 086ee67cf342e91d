#include "kernels/cpu/fast/window_scoring.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/fast/attention.h"
#include "kernels/cpu/fast/board_rows.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kSlotTask = 4 * kKeyTile;
constexpr uint32_t kPoolTask = 512;  // slots that are pooled
// 8 MiB. A window of 64 queries of the reference model has one block up to 3,600 tokens.
constexpr size_t kKeptFloats = size_t{1} << 21;

}  // namespace

uint32_t WindowScoring::Block::begin(uint32_t group) const { return group * kSlotTask; }
uint32_t WindowScoring::Block::end(uint32_t group) const {
  return std::min(window.queries.context, begin(group) + kSlotTask);
}

void WindowScoring::Score(ThreadPool& pool, const bf16* q, absl::Span<const WindowItem> runs,
                          const AttentionShape& shape, const PoolView& pages) {
  if (pages.scores == nullptr || runs.empty()) return;
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && shape.head_dim % 2 == 0);
  if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
  for (PerThread& thread : threads_) thread.tiles.Prepare(kernels_, pages);
  for (const WindowItem& window : runs) {
    const AttentionItem& run = window.queries;
    FOLIO_CHECK(run.rows > 0 && run.context >= run.rows && run.window == 0);
    FOLIO_CHECK(window.neighbours <= kMaxNeighbours);
    const uint32_t slots = WholeTiles(run.context);
    mass_stride_ = slots + 2 * window.neighbours;
    // There is no mass beyond the ends, which changes no maximum.
    std::fill_n(mass_.Get(shape.kv_heads * mass_stride_), shape.kv_heads * mass_stride_, 0.0f);
    const size_t fitting = std::max<size_t>(kKeptFloats / (size_t{shape.heads} * slots), 1);
    Block block{window,
                q,
                shape,
                pages,
                0,
                0,
                0,
                slots / kKeyTile,
                (run.context + kSlotTask - 1) / kSlotTask};
    for (; block.first < run.rows; block.first += block.count) {
      block.count = static_cast<uint32_t>(std::min<size_t>(run.rows - block.first, fitting));
      block.rows = shape.heads / shape.kv_heads * block.count;
      ScoreRows(pool, block);
    }
    const uint32_t tasks = (run.context + kPoolTask - 1) / kPoolTask;
    pool.ParallelFor(static_cast<int>(tasks), [&](int i, int) {
      const uint32_t first = static_cast<uint32_t>(i) * kPoolTask;
      Pool(block, first, std::min(run.context, first + kPoolTask));
    });
  }
}

// Adds the mass of a block's rows.
void WindowScoring::ScoreRows(ThreadPool& pool, const Block& block) {
  const uint32_t kv_heads = block.shape.kv_heads;
  const size_t tile_rows = size_t{kv_heads} * block.tiles * block.rows;
  kept_.Get(tile_rows * kKeyTile);
  peaks_.Get(tile_rows);
  group_max_.Get(size_t{kv_heads} * block.groups * block.rows);
  group_sum_.Get(size_t{kv_heads} * block.groups * block.rows);
  max_.Get(size_t{kv_heads} * block.rows);
  weight_.Get(size_t{kv_heads} * block.rows);
  const auto tasks = static_cast<int>(kv_heads * block.groups);
  pool.ParallelFor(tasks, [&](int i, int thread) {
    KeepShares(block, i / block.groups, i % block.groups, threads_[thread]);
  });
  pool.ParallelFor(static_cast<int>(kv_heads),
                   [&](int head, int) { Weigh(block, static_cast<uint32_t>(head)); });
  pool.ParallelFor(tasks, [&](int i, int) { AddMass(block, i / block.groups, i % block.groups); });
}

// The exponentials of a group of slots, and the rows' maxima and sums among them.
void WindowScoring::KeepShares(const Block& block, uint32_t kv_head, uint32_t group,
                               PerThread& mine) {
  const AttentionItem& run = block.window.queries;
  const uint32_t head_dim = block.shape.head_dim;
  const size_t q_stride = size_t{block.shape.heads} * head_dim;
  const uint32_t lanes = kernels_.lanes;
  const size_t at = (size_t{kv_head} * block.groups + group) * block.rows;
  float* max = group_max_.Get(0) + at;
  std::fill_n(max, block.rows, kNoPeak);
  float* sums = mine.sums.Get(size_t{block.rows} * lanes);
  std::fill_n(sums, size_t{block.rows} * lanes, 0.0f);
  int32_t* valid = mine.valid.Get(block.count);
  const uint32_t end = block.end(group);
  TilePlace next{run.pages, kv_head, block.begin(group), end};
  mine.tiles.Start(next);
  for (uint32_t slot = block.begin(group); slot < end; slot += kKeyTile) {
    next.slot = slot + kKeyTile;
    mine.tiles.NextKeysAlone(next.slot < end ? &next : nullptr);
    FillLimits(run, block.first, block.count, slot, valid, nullptr);
    const size_t tile_row = block.tile(kv_head, slot) * block.rows;
    for (uint32_t row = 0; row < block.rows; row += block.count) {
      const size_t head = (size_t{kv_head} * block.rows + row) / block.count;
      const bf16* q = block.q + (run.first_row + block.first) * q_stride + head * head_dim;
      kernels_.keep_shares({.queries = {.q = q,
                                        .q_stride = q_stride,
                                        .rows = block.count,
                                        .head_dim = head_dim,
                                        .keys = mine.tiles.keys(),
                                        .values = nullptr,
                                        .valid = valid,
                                        .skip = nullptr,
                                        .scale = SoftmaxScale(head_dim),
                                        .next = nullptr,
                                        .max = max + row,
                                        .sum = sums + size_t{row} * lanes,
                                        .acc = nullptr},
                            .kept = kept_.Get(0) + (tile_row + row) * kKeyTile,
                            .peaks = peaks_.Get(0) + tile_row + row});
    }
  }
  float* sum = group_sum_.Get(0) + at;
  for (uint32_t row = 0; row < block.rows; ++row) {
    sum[row] = 0;
    for (uint32_t i = 0; i < lanes; ++i) sum[row] += sums[size_t{row} * lanes + i];
  }
}

// The maxima of a KV head's rows, and what their exponentials count.
void WindowScoring::Weigh(const Block& block, uint32_t kv_head) {
  const uint32_t group_heads = block.shape.heads / block.shape.kv_heads;
  const auto queries = static_cast<float>(block.window.queries.rows * group_heads);
  for (uint32_t row = 0; row < block.rows; ++row) {
    const size_t at = size_t{kv_head} * block.groups * block.rows + row;
    float max = kNoPeak;
    for (uint32_t group = 0; group < block.groups; ++group) {
      max = std::max(max, group_max_.Get(0)[at + size_t{group} * block.rows]);
    }
    float sum = 0;
    for (uint32_t group = 0; group < block.groups; ++group) {
      const size_t one = at + size_t{group} * block.rows;
      sum += group_sum_.Get(0)[one] * std::exp2(group_max_.Get(0)[one] - max);
    }
    const size_t own = size_t{kv_head} * block.rows + row;
    max_.Get(0)[own] = max;
    weight_.Get(0)[own] = 1.0f / (sum * queries);
  }
}

// Adds the shares of the block's rows to a group of slots.
void WindowScoring::AddMass(const Block& block, uint32_t kv_head, uint32_t group) {
  const size_t own = size_t{kv_head} * block.rows;
  float* mass = mass_.Get(0) + kv_head * mass_stride_ + block.window.neighbours;
  for (uint32_t slot = block.begin(group); slot < block.end(group); slot += kKeyTile) {
    const size_t tile_row = block.tile(kv_head, slot) * block.rows;
    kernels_.add_shares({.kept = kept_.Get(0) + tile_row * kKeyTile,
                         .peaks = peaks_.Get(0) + tile_row,
                         .max = max_.Get(0) + own,
                         .weight = weight_.Get(0) + own,
                         .rows = block.rows,
                         .mass = mass + slot});
  }
}

// Slots [first, end) in all KV heads.
void WindowScoring::Pool(const Block& block, uint32_t first, uint32_t end) {
  const WindowItem& window = block.window;
  float pooled[kPoolTask];
  for (uint32_t head = 0; head < block.shape.kv_heads; ++head) {
    const float* left = mass_.Get(0) + head * mass_stride_ + first;
    std::copy_n(left, end - first, pooled);
    for (uint32_t shift = 1; shift <= 2 * window.neighbours; ++shift) {
      for (uint32_t i = 0; i < end - first; ++i) pooled[i] = std::max(pooled[i], left[i + shift]);
    }
    PutScores(block.pages, {window.queries.pages, window.channel}, head, first, pooled,
              end - first);
  }
}

}  // namespace folio::kernels::cpu::fast
