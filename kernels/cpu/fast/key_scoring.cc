#include "kernels/cpu/fast/key_scoring.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/fast/attention.h"
#include "kernels/cpu/fast/board_rows.h"
#include "services/common/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kSampleAhead = 4;  // scattered keys under way at once

// A sample's keys lie pages apart, and so do their angles: asked for one by one, each would be
// waited for.
void Fetch(const UnrotatedKey& key, bool angles) {
  for (uint32_t at = 0; at < key.head_dim; at += 32) __builtin_prefetch(key.key + at);
  for (uint32_t at = 0; angles && at < key.head_dim / 2; at += 16) {
    __builtin_prefetch(key.cos + at);
    __builtin_prefetch(key.sin + at);
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

bool KeyScoring::Ready(const ThreadPool& pool, size_t runs, const PoolView& pages) {
  if (pages.scores == nullptr || runs == 0) return false;
  FOLIO_CHECK(pages.geometry.head_dim % 2 == 0);
  if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
  return true;
}

void KeyScoring::Resident(ThreadPool& pool, absl::Span<const ResidentRun> runs,
                          const PoolView& pages) {
  if (!Ready(pool, runs.size(), pages)) return;
  const uint32_t heads = pages.geometry.num_kv_heads;
  pool.ParallelFor(static_cast<int>(runs.size() * heads), [&](int task, int thread) {
    ScoreHead(runs[task / heads], task % heads, pages, threads_[thread]);
  });
}

void KeyScoring::Unrotated(ThreadPool& pool, absl::Span<const UnrotatedRun> runs,
                           const RopeTable& rope, const PoolView& pages) {
  if (!Ready(pool, runs.size(), pages)) return;
  pool.ParallelFor(static_cast<int>(runs.size()), [&](int task, int thread) {
    ScoreUnrotated(runs[task], rope, pages, threads_[thread]);
  });
}

void KeyScoring::ScoreHead(const ResidentRun& run, uint32_t kv_head, const PoolView& pages,
                           PerThread& mine) {
  const uint32_t head_dim = pages.geometry.head_dim;
  const uint32_t size = AccStride(head_dim, kernels_.lanes);
  const bf16* zeros = mine.zeros.Get(head_dim);
  std::fill_n(mine.zeros.Get(head_dim), head_dim, bf16{});
  float* direction = mine.floats.Get(size_t{size} + kKeyTile + WholeTiles(run.tokens));
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

void KeyScoring::ScoreUnrotated(const UnrotatedRun& run, const RopeTable& rope,
                                const PoolView& pages, PerThread& mine) {
  const CacheGeometry& geometry = pages.geometry;
  const uint32_t head_dim = geometry.head_dim;
  const uint32_t heads = geometry.num_kv_heads;
  const uint32_t page_tokens = geometry.page_tokens;
  const auto key = [&](uint32_t slot, uint32_t kv_head) -> UnrotatedKey {
    const size_t angle = size_t{run.positions[slot]} * (head_dim / 2);
    FOLIO_DCHECK(run.positions[slot] < rope.positions);
    return {pages.keys(run.pages[slot / page_tokens]) +
                (size_t{kv_head} * page_tokens + slot % page_tokens) * head_dim,
            rope.cos + angle, rope.sin + angle, head_dim};
  };
  float* directions = mine.floats.Get(size_t{heads} * head_dim);  // [heads, head_dim]
  std::fill_n(directions, size_t{heads} * head_dim, 0.0f);
  uint32_t sample = 0;
  for (uint32_t slot = page_tokens - 1 + run.stride; slot < run.tokens;
       slot += run.stride, ++sample) {
    if (const uint32_t ahead = slot + kSampleAhead * run.stride; ahead < run.tokens) {
      for (uint32_t head = 0; head < heads; ++head) Fetch(key(ahead, head), head == 0);
    }
    for (uint32_t head = 0; head < heads; ++head) {
      kernels_.add_unrotated(key(slot, head), directions + size_t{head} * head_dim);
    }
  }
  for (uint32_t head = 0; head < heads; ++head) {
    NegateDirection(directions + size_t{head} * head_dim, head_dim, sample);
  }
  for (uint32_t slot = run.first; slot < run.tokens; ++slot) {
    float* scores = pages.page_scores(run.pages[slot / page_tokens]) +
                    size_t{slot % page_tokens} * pages.score_stride();
    for (uint32_t head = 0; head < heads; ++head) {
      scores[head] =
          kernels_.project_unrotated(key(slot, head), directions + size_t{head} * head_dim);
    }
  }
}

}  // namespace folio::kernels::cpu::fast
