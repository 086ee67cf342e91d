#include "kernels/cpu/fast/window_scoring.h"

#include <algorithm>

#include "kernels/cpu/fast/attention.h"
#include "kernels/cpu/fast/board_rows.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kQueryTask = 16;           // query rows
constexpr uint32_t kSlotTask = 4 * kKeyTile;  // slots that are given mass
constexpr uint32_t kPoolTask = 512;           // slots that are pooled

}  // namespace

template <typename Count>
void WindowScoring::ListTasks(const Call& call, uint32_t heads, uint32_t step, Count count) {
  tasks_.clear();
  for (uint32_t run = 0; run < call.runs.size(); ++run) {
    const uint32_t total = count(call.runs[run].queries);
    for (uint32_t head = 0; head < heads; ++head) {
      for (uint32_t first = 0; first < total; first += step) {
        tasks_.push_back({run, head, first, std::min(total, first + step)});
      }
    }
  }
}

void WindowScoring::Build(const Call& call) {
  places_.clear();
  size_t rows = 0;
  size_t mass = 0;
  for (const auto& [run, neighbours, channel] : call.runs) {
    FOLIO_CHECK(run.rows > 0 && run.context >= run.rows && run.window == 0);
    FOLIO_CHECK(neighbours <= kMaxNeighbours);
    const uint32_t stride = WholeTiles(run.context) + 2 * neighbours;
    places_.push_back({rows, mass, stride});
    rows += size_t{2} * call.shape.heads * run.rows;
    mass += size_t{call.shape.kv_heads} * stride;
  }
  rows_.Get(rows);
  // There is no mass beyond the ends, which changes no maximum.
  std::fill_n(mass_.Get(mass), mass, 0.0f);
}

void WindowScoring::Score(ThreadPool& pool, const bf16* q, absl::Span<const WindowItem> runs,
                          const AttentionShape& shape, const PoolView& pages) {
  if (pages.scores == nullptr || runs.empty()) return;
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && shape.head_dim % 2 == 0);
  if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
  for (PerThread& thread : threads_) thread.tiles.Prepare(kernels_, pages);
  const Call call{q, runs, shape, pages};
  Build(call);
  ListTasks(call, shape.kv_heads, kQueryTask, [](const AttentionItem& run) { return run.rows; });
  pool.ParallelFor(static_cast<int>(tasks_.size()),
                   [&](int i, int thread) { SumRows(call, tasks_[i], threads_[thread]); });
  ListTasks(call, shape.kv_heads, kSlotTask, [](const AttentionItem& run) { return run.context; });
  pool.ParallelFor(static_cast<int>(tasks_.size()),
                   [&](int i, int thread) { AddMass(call, tasks_[i], threads_[thread]); });
  ListTasks(call, 1, kPoolTask, [](const AttentionItem& run) { return run.context; });
  pool.ParallelFor(static_cast<int>(tasks_.size()), [&](int i, int) { Pool(call, tasks_[i]); });
}

FlashTile WindowScoring::Queries(const Call& call, const Task& task, uint32_t head, uint32_t first,
                                 uint32_t count, PerThread& mine) const {
  const size_t row = size_t{call.runs[task.run].queries.first_row} + first;
  const uint32_t head_dim = call.shape.head_dim;
  const size_t stride = size_t{call.shape.heads} * head_dim;
  return {.q = call.q + row * stride + size_t{head} * head_dim,
          .q_stride = stride,
          .rows = count,
          .head_dim = head_dim,
          .keys = mine.tiles.keys(),
          .values = nullptr,
          .valid = mine.valid.Get(count),
          .skip = nullptr,
          .scale = SoftmaxScale(head_dim),
          .next = nullptr,
          .max = nullptr,
          .sum = nullptr,
          .acc = nullptr};
}

// Maxima and sums of some query rows, in all heads of the KV head.
void WindowScoring::SumRows(const Call& call, const Task& task, PerThread& mine) {
  const AttentionItem& run = call.runs[task.run].queries;
  const uint32_t lanes = kernels_.lanes;
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  const uint32_t count = task.end - task.first;
  float* sum = mine.floats.Get(size_t{group} * count * lanes);
  std::fill_n(sum, size_t{group} * count * lanes, 0.0f);
  float* max = rows_.Get(0) + places_[task.run].rows + size_t{task.kv_head} * group * run.rows;
  float* weight = max + size_t{call.shape.heads} * run.rows;
  for (uint32_t g = 0; g < group; ++g) {
    std::fill_n(max + size_t{g} * run.rows + task.first, count, kNoPeak);
  }
  int32_t* valid = mine.valid.Get(count);
  const uint32_t end = run.end_slot(task.end - 1);
  TilePlace next{run.pages, task.kv_head, 0, end};
  mine.tiles.Start(next);
  for (uint32_t slot = 0; slot < end; slot += kKeyTile) {
    next.slot = slot + kKeyTile;
    mine.tiles.NextKeysAlone(next.slot < end ? &next : nullptr);
    FillLimits(run, task.first, count, slot, valid, nullptr);
    for (uint32_t g = 0; g < group; ++g) {
      FlashTile tile = Queries(call, task, task.kv_head * group + g, task.first, count, mine);
      tile.max = max + size_t{g} * run.rows + task.first;
      tile.sum = sum + size_t{g} * count * lanes;
      kernels_.softmax_sums(tile);
    }
  }
  const auto queries = static_cast<float>(run.rows * group);
  for (uint32_t r = 0; r < group * count; ++r) {
    float total = 0;
    for (uint32_t i = 0; i < lanes; ++i) total += sum[size_t{r} * lanes + i];
    weight[size_t{r / count} * run.rows + task.first + r % count] = 1.0f / (total * queries);
  }
}

// Adds the shares of all query rows to some slots.
void WindowScoring::AddMass(const Call& call, const Task& task, PerThread& mine) {
  const AttentionItem& run = call.runs[task.run].queries;
  const Place& at = places_[task.run];
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  float* max = rows_.Get(0) + at.rows + size_t{task.kv_head} * group * run.rows;
  float* weight = max + size_t{call.shape.heads} * run.rows;
  float* mass = mass_.Get(0) + at.mass + size_t{task.kv_head} * at.mass_stride +
                call.runs[task.run].neighbours;
  int32_t* valid = mine.valid.Get(run.rows);
  TilePlace next{run.pages, task.kv_head, task.first, task.end};
  mine.tiles.Start(next);
  for (uint32_t slot = task.first; slot < task.end; slot += kKeyTile) {
    next.slot = slot + kKeyTile;
    mine.tiles.NextKeysAlone(next.slot < task.end ? &next : nullptr);
    FillLimits(run, 0, run.rows, slot, valid, nullptr);
    for (uint32_t g = 0; g < group; ++g) {
      FlashTile tile = Queries(call, task, task.kv_head * group + g, 0, run.rows, mine);
      tile.max = max + size_t{g} * run.rows;
      kernels_.add_shares({tile, weight + size_t{g} * run.rows, mass + slot});
    }
  }
}

void WindowScoring::Pool(const Call& call, const Task& task) {
  const WindowItem& window = call.runs[task.run];
  const Place& at = places_[task.run];
  float pooled[kPoolTask];
  for (uint32_t head = 0; head < call.shape.kv_heads; ++head) {
    const float* left = mass_.Get(0) + at.mass + size_t{head} * at.mass_stride + task.first;
    std::copy_n(left, task.end - task.first, pooled);
    for (uint32_t shift = 1; shift <= 2 * window.neighbours; ++shift) {
      for (uint32_t i = 0; i < task.end - task.first; ++i) {
        pooled[i] = std::max(pooled[i], left[i + shift]);
      }
    }
    PutScores(call.pages, {window.queries.pages, window.channel}, head, task.first, pooled,
              task.end - task.first);
  }
}

}  // namespace folio::kernels::cpu::fast
