#include "kernels/cpu/fast/scoring.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/fast/attention.h"
#include "services/common/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kQueryTask = 16;           // query rows
constexpr uint32_t kSlotTask = 4 * kKeyTile;  // slots that are given mass
constexpr uint32_t kPoolTask = 512;           // slots that are pooled

uint32_t RoundUp(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

struct ScoreRows {
  const uint32_t* table;
  uint32_t plane;
};

// Writes one KV head's scores of `count` slots from `slot` on.
void PutScores(const PoolView& pages, const ScoreRows& rows, uint32_t kv_head, uint32_t slot,
               const float* score, uint32_t count) {
  const CacheGeometry& geometry = pages.geometry;
  for (uint32_t i = 0; i < count;) {
    const uint32_t offset = (slot + i) % geometry.page_tokens;
    float* to = pages.page_scores(rows.table[(slot + i) / geometry.page_tokens], rows.plane) +
                size_t{offset} * geometry.num_kv_heads + kv_head;
    const uint32_t stop = std::min(count, i + geometry.page_tokens - offset);
    for (; i < stop; ++i, to += geometry.num_kv_heads) *to = score[i];
  }
}

// Turns the sum of `count` directions into what a key's direction is multiplied with for its score:
// minus the mean's direction, or zeros where there is none.
void NegateDirection(float* sum, uint32_t size, uint32_t count) {
  double squares = 0;
  for (uint32_t i = 0; i < size; ++i) squares += double{sum[i]} * sum[i];
  const double norm = std::sqrt(squares);
  const bool none = norm == 0 || norm < kLeastMeanNorm * count;
  const auto scale = none ? 0.0f : static_cast<float>(-1 / norm);
  for (uint32_t i = 0; i < size; ++i) sum[i] *= scale;
}

}  // namespace

template <typename Run, typename HeadTask>
void BoardScoring::ForEachHead(ThreadPool& pool, absl::Span<const Run> runs, const PoolView& pages,
                               HeadTask task) {
  if (pages.scores == nullptr || runs.empty()) return;
  FOLIO_CHECK(pages.geometry.head_dim % 2 == 0);
  if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
  const uint32_t heads = pages.geometry.num_kv_heads;
  pool.ParallelFor(static_cast<int>(runs.size() * heads),
                   [&](int i, int thread) { task(runs[i / heads], i % heads, threads_[thread]); });
}

void BoardScoring::Resident(ThreadPool& pool, absl::Span<const ResidentRun> runs,
                            const PoolView& pages) {
  ForEachHead(pool, runs, pages, [&](const ResidentRun& run, uint32_t kv_head, PerThread& mine) {
    ScoreHead(run, kv_head, pages, mine);
  });
}

void BoardScoring::Unrotated(ThreadPool& pool, absl::Span<const UnrotatedRun> runs,
                             const RopeTable& rope, const PoolView& pages) {
  ForEachHead(pool, runs, pages, [&](const UnrotatedRun& run, uint32_t kv_head, PerThread& mine) {
    ScoreUnrotatedHead(run, kv_head, rope, pages, mine);
  });
}

void BoardScoring::ScoreHead(const ResidentRun& run, uint32_t kv_head, const PoolView& pages,
                             PerThread& mine) {
  const uint32_t head_dim = pages.geometry.head_dim;
  const uint32_t size = AccStride(head_dim, kernels_.lanes);
  const bf16* zeros = mine.zeros.Get(head_dim);
  std::fill_n(mine.zeros.Get(head_dim), head_dim, bf16{});
  float* direction = mine.floats.Get(size_t{size} + kKeyTile + RoundUp(run.tokens, kKeyTile));
  float* score = direction + size;
  float* inverse = score + kKeyTile;  // [tokens]
  std::fill_n(direction, size, 0.0f);
  const bf16* keys[2][kKeyTile];
  uint32_t now = 0;
  const auto place = [&](uint32_t slot) { return TilePlace{run.pages, kv_head, slot, run.tokens}; };
  if (run.tokens > 0) GatherKeys(pages, place(0), zeros, keys[now]);
  for (uint32_t slot = 0; slot < run.tokens; slot += kKeyTile, now = 1 - now) {
    const bool more = slot + kKeyTile < run.tokens;
    if (more) GatherKeys(pages, place(slot + kKeyTile), zeros, keys[1 - now]);
    kernels_.add_directions(
        {keys[now], more ? keys[1 - now] : nullptr, head_dim, inverse + slot, direction});
  }
  NegateDirection(direction, size, run.tokens);
  for (uint32_t slot = 0; slot < run.tokens; slot += kKeyTile) {
    const uint32_t count = GatherKeys(pages, place(slot), zeros, keys[0]);
    kernels_.project({keys[0], head_dim, inverse + slot, direction, score});
    PutScores(pages, {run.pages, 0}, kv_head, slot, score, count);
  }
}

void BoardScoring::ScoreUnrotatedHead(const UnrotatedRun& run, uint32_t kv_head,
                                      const RopeTable& rope, const PoolView& pages,
                                      PerThread& mine) {
  const CacheGeometry& geometry = pages.geometry;
  const uint32_t page_tokens = geometry.page_tokens;
  const auto key = [&](uint32_t slot) -> UnrotatedKey {
    const size_t angle = size_t{run.positions[slot]} * (geometry.head_dim / 2);
    FOLIO_DCHECK(run.positions[slot] < rope.positions);
    return {pages.keys(run.pages[slot / page_tokens]) +
                (size_t{kv_head} * page_tokens + slot % page_tokens) * geometry.head_dim,
            rope.cos + angle, rope.sin + angle, geometry.head_dim};
  };
  float* direction = mine.floats.Get(geometry.head_dim);
  std::fill_n(direction, geometry.head_dim, 0.0f);
  uint32_t sample = 0;
  for (uint32_t slot = page_tokens - 1 + run.stride; slot < run.tokens;
       slot += run.stride, ++sample) {
    kernels_.add_unrotated(key(slot), direction);
  }
  NegateDirection(direction, geometry.head_dim, sample);
  for (uint32_t slot = run.first; slot < run.tokens; ++slot) {
    const float score = kernels_.project_unrotated(key(slot), direction);
    PutScores(pages, {run.pages, 0}, kv_head, slot, &score, 1);
  }
}

template <typename Count>
void BoardScoring::ListTasks(const Call& call, uint32_t heads, uint32_t step, Count count) {
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

void BoardScoring::Lay(const Call& call) {
  places_.clear();
  size_t rows = 0;
  size_t mass = 0;
  for (const auto& [run, neighbours, plane] : call.runs) {
    FOLIO_CHECK(run.rows > 0 && run.context >= run.rows);
    FOLIO_CHECK(neighbours <= kMostNeighbours);
    const uint32_t stride = RoundUp(run.context, kKeyTile) + 2 * neighbours;
    places_.push_back({rows, mass, stride});
    rows += size_t{2} * call.shape.heads * run.rows;
    mass += size_t{call.shape.kv_heads} * stride;
  }
  rows_.Get(rows);
  // No mass beyond the ends: it is the neighbour that changes no maximum.
  std::fill_n(mass_.Get(mass), mass, 0.0f);
}

void BoardScoring::Window(ThreadPool& pool, const bf16* q, absl::Span<const WindowRun> runs,
                          const AttentionShape& shape, const PoolView& pages) {
  if (pages.scores == nullptr || runs.empty()) return;
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && shape.head_dim % 2 == 0);
  if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
  for (PerThread& thread : threads_) thread.tiles.Prepare(kernels_, pages);
  const Call call{q, runs, shape, pages};
  Lay(call);
  ListTasks(call, shape.kv_heads, kQueryTask, [](const AttentionRun& run) { return run.rows; });
  pool.ParallelFor(static_cast<int>(tasks_.size()),
                   [&](int i, int thread) { SumRows(call, tasks_[i], threads_[thread]); });
  ListTasks(call, shape.kv_heads, kSlotTask, [](const AttentionRun& run) { return run.context; });
  pool.ParallelFor(static_cast<int>(tasks_.size()),
                   [&](int i, int thread) { AddMass(call, tasks_[i], threads_[thread]); });
  ListTasks(call, 1, kPoolTask, [](const AttentionRun& run) { return run.context; });
  pool.ParallelFor(static_cast<int>(tasks_.size()), [&](int i, int) { Pool(call, tasks_[i]); });
}

FlashTile BoardScoring::Queries(const Call& call, const Task& task, uint32_t head, uint32_t first,
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
          .scale = SoftmaxScale(head_dim),
          .next = nullptr,
          .max = nullptr,
          .sum = nullptr,
          .acc = nullptr};
}

// Maxima and sums of some query rows, in all heads of the KV head.
void BoardScoring::SumRows(const Call& call, const Task& task, PerThread& mine) {
  const AttentionRun& run = call.runs[task.run].queries;
  const uint32_t lanes = kernels_.lanes;
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  const uint32_t count = task.end - task.first;
  float* sum = mine.floats.Get(size_t{group} * count * lanes);
  std::fill_n(sum, size_t{group} * count * lanes, 0.0f);
  float* max = rows_.Get(0) + places_[task.run].rows + size_t{task.kv_head} * group * run.rows;
  float* weight = max + size_t{call.shape.heads} * run.rows;
  for (uint32_t g = 0; g < group; ++g) {
    std::fill_n(max + size_t{g} * run.rows + task.first, count,
                -std::numeric_limits<float>::infinity());
  }
  int32_t* valid = mine.valid.Get(count);
  const uint32_t seen_by_first = run.context - run.rows + 1 + task.first;
  const uint32_t end = seen_by_first + count - 1;
  TilePlace next{run.pages, task.kv_head, 0, end};
  mine.tiles.Start(next);
  for (uint32_t slot = 0; slot < end; slot += kKeyTile) {
    next.slot = slot + kKeyTile;
    mine.tiles.NextKeysAlone(next.slot < end ? &next : nullptr);
    for (uint32_t i = 0; i < count; ++i) {
      valid[i] = static_cast<int32_t>(seen_by_first + i) - static_cast<int32_t>(slot);
    }
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

// What all query rows give to some slots.
void BoardScoring::AddMass(const Call& call, const Task& task, PerThread& mine) {
  const AttentionRun& run = call.runs[task.run].queries;
  const Place& at = places_[task.run];
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  float* max = rows_.Get(0) + at.rows + size_t{task.kv_head} * group * run.rows;
  float* weight = max + size_t{call.shape.heads} * run.rows;
  float* mass = mass_.Get(0) + at.mass + size_t{task.kv_head} * at.mass_stride +
                call.runs[task.run].neighbours;
  int32_t* valid = mine.valid.Get(run.rows);
  const uint32_t seen_by_first = run.context - run.rows + 1;
  TilePlace next{run.pages, task.kv_head, task.first, task.end};
  mine.tiles.Start(next);
  for (uint32_t slot = task.first; slot < task.end; slot += kKeyTile) {
    next.slot = slot + kKeyTile;
    mine.tiles.NextKeysAlone(next.slot < task.end ? &next : nullptr);
    for (uint32_t i = 0; i < run.rows; ++i) {
      valid[i] = static_cast<int32_t>(seen_by_first + i) - static_cast<int32_t>(slot);
    }
    for (uint32_t g = 0; g < group; ++g) {
      FlashTile tile = Queries(call, task, task.kv_head * group + g, 0, run.rows, mine);
      tile.max = max + size_t{g} * run.rows;
      kernels_.add_shares({tile, weight + size_t{g} * run.rows, mass + slot});
    }
  }
}

void BoardScoring::Pool(const Call& call, const Task& task) {
  const WindowRun& window = call.runs[task.run];
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
    PutScores(call.pages, {window.queries.pages, window.plane}, head, task.first, pooled,
              task.end - task.first);
  }
}

}  // namespace folio::kernels::cpu::fast
