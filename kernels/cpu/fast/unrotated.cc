#include "kernels/cpu/fast/unrotated.h"

#include <algorithm>
#include <cmath>

#include "services/common/check.h"

namespace folio::kernels::cpu::fast {

void UnrotatedScoring::Score(ThreadPool& pool, absl::Span<const UnrotatedRun> runs,
                             const RopeTable& rope, const PoolView& pages) {
  if (pages.scores == nullptr || runs.empty()) return;
  FOLIO_CHECK(pages.geometry.head_dim % 2 == 0);
  if (directions_.size() < static_cast<size_t>(pool.threads())) directions_.resize(pool.threads());
  const uint32_t heads = pages.geometry.num_kv_heads;
  pool.ParallelFor(static_cast<int>(runs.size() * heads), [&](int task, int thread) {
    ScoreHead(runs[task / heads], task % heads, rope, pages,
              directions_[thread].Get(pages.geometry.head_dim));
  });
}

void UnrotatedScoring::ScoreHead(const UnrotatedRun& run, uint32_t kv_head, const RopeTable& rope,
                                 const PoolView& pages, float* direction) const {
  const CacheGeometry& geometry = pages.geometry;
  const uint32_t page_tokens = geometry.page_tokens;
  const auto key = [&](uint32_t slot) -> UnrotatedKey {
    const size_t angle = size_t{run.positions[slot]} * (geometry.head_dim / 2);
    FOLIO_DCHECK(run.positions[slot] < rope.positions);
    return {pages.keys(run.pages[slot / page_tokens]) +
                (size_t{kv_head} * page_tokens + slot % page_tokens) * geometry.head_dim,
            rope.cos + angle, rope.sin + angle, geometry.head_dim};
  };
  std::fill_n(direction, geometry.head_dim, 0.0f);
  uint32_t sample = 0;
  for (uint32_t slot = page_tokens - 1 + run.stride; slot < run.tokens;
       slot += run.stride, ++sample) {
    kernels_.add_unrotated(key(slot), direction);
  }
  double squares = 0;
  for (uint32_t i = 0; i < geometry.head_dim; ++i) squares += double{direction[i]} * direction[i];
  const double norm = std::sqrt(squares);
  const auto scale =
      sample == 0 || norm < kLeastMeanNorm * sample ? 0.0f : static_cast<float>(-1 / norm);
  for (uint32_t i = 0; i < geometry.head_dim; ++i) direction[i] *= scale;
  for (uint32_t slot = run.first; slot < run.tokens; ++slot) {
    float* scores = pages.page_scores(run.pages[slot / page_tokens]);
    scores[size_t{slot % page_tokens} * geometry.num_kv_heads + kv_head] =
        kernels_.project_unrotated(key(slot), direction);
  }
}

}  // namespace folio::kernels::cpu::fast
