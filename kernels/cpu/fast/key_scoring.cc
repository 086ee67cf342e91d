#include "kernels/cpu/fast/key_scoring.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/fast/attention.h"
#include "kernels/cpu/fast/board_rows.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kSampleAhead = 4;  // of a lone run: scattered keys under way at once

// Goes over a run's tokens in steps, without a division for each.
class TokenCursor {
 public:
  TokenCursor(const UnrotatedItem& run, const RopeTable& rope, const PoolView& pages,
              uint32_t first, uint32_t step)
      : run_(run),
        rope_(rope),
        pages_(pages),
        page_tokens_(pages.geometry.page_tokens),
        step_(step),
        page_step_(step / page_tokens_),
        row_step_(step % page_tokens_),
        slot_(first),
        page_(first / page_tokens_),
        row_(first % page_tokens_) {}

  bool more() const { return slot_ < run_.tokens; }
  void Next() {
    slot_ += step_;
    page_ += page_step_;
    row_ += row_step_;
    if (row_ < page_tokens_) return;
    row_ -= page_tokens_;
    ++page_;
  }
  UnrotatedKeys Keys() const {
    const CacheGeometry& geometry = pages_.geometry;
    FOLIO_DCHECK(run_.positions[slot_] < rope_.positions);
    const size_t angle = size_t{run_.positions[slot_]} * (geometry.head_dim / 2);
    return {.keys = pages_.keys(run_.pages[page_]) + size_t{row_} * geometry.head_dim,
            .stride = size_t{page_tokens_} * geometry.head_dim,
            .cos = rope_.cos + angle,
            .sin = rope_.sin + angle,
            .heads = geometry.num_kv_heads,
            .head_dim = geometry.head_dim};
  }
  float* Scores() const {
    return pages_.page_scores(run_.pages[page_]) + size_t{row_} * pages_.score_stride();
  }
  // Keys lie pages apart, and so do their angles. Several are fetched at once, because waiting for
  // each one alone would take most of the time.
  void Fetch() const {
    if (!more()) return;
    const UnrotatedKeys token = Keys();
    for (uint32_t head = 0; head < token.heads; ++head) {
      const bf16* key = token.keys + head * token.stride;
      for (uint32_t at = 0; at < token.head_dim; at += 32) __builtin_prefetch(key + at);
    }
    for (uint32_t at = 0; at < token.head_dim / 2; at += 16) {
      __builtin_prefetch(token.cos + at);
      __builtin_prefetch(token.sin + at);
    }
  }

 private:
  const UnrotatedItem& run_;
  const RopeTable& rope_;
  const PoolView& pages_;
  const uint32_t page_tokens_, step_, page_step_, row_step_;
  uint32_t slot_, page_, row_;
};

// An item with a whole prompt's keys is a task of its own. Items with one page of keys are small,
// so several make a task, and the next item's keys arrive while one is scored.
size_t RunsPerTask(absl::Span<const UnrotatedItem> runs, size_t threads) {
  constexpr uint32_t kFew = 64;
  constexpr size_t kTasksPerThread = 4;
  for (const UnrotatedItem& run : runs) {
    if (run.tokens - run.first > kFew) return 1;
  }
  return std::max<size_t>(1, runs.size() / (kTasksPerThread * threads));
}

// Turns the sum of `count` directions into the vector whose product with a key's direction is the
// key's score. That is minus the mean's direction, or zeros if the mean has none.
void NegateDirection(float* sum, uint32_t size, uint32_t count) {
  double squares = 0;
  for (uint32_t i = 0; i < size; ++i) squares += double{sum[i]} * sum[i];
  const double norm = std::sqrt(squares);
  const bool none = norm == 0 || norm < kMinMeanNorm * count;
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

void KeyScoring::Resident(ThreadPool& pool, absl::Span<const ResidentItem> runs,
                          const PoolView& pages) {
  if (!Ready(pool, runs.size(), pages)) return;
  const uint32_t heads = pages.geometry.num_kv_heads;
  pool.ParallelFor(static_cast<int>(runs.size() * heads), [&](int task, int thread) {
    ScoreHead(runs[task / heads], task % heads, pages, threads_[thread]);
  });
}

void KeyScoring::Unrotated(ThreadPool& pool, absl::Span<const UnrotatedItem> runs,
                           const RopeTable& rope, const PoolView& pages) {
  if (!Ready(pool, runs.size(), pages)) return;
  const size_t per_task = RunsPerTask(runs, threads_.size());
  const size_t tasks = (runs.size() + per_task - 1) / per_task;
  pool.ParallelFor(static_cast<int>(tasks), [&](int task, int thread) {
    absl::Span<const UnrotatedItem> mine = runs.subspan(task * per_task, per_task);
    for (; !mine.empty(); mine.remove_prefix(1)) {
      ScoreUnrotated(mine, rope, pages, threads_[thread]);
    }
  });
}

void KeyScoring::ScoreHead(const ResidentItem& run, uint32_t kv_head, const PoolView& pages,
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

void KeyScoring::ScoreUnrotated(absl::Span<const UnrotatedItem> runs, const RopeTable& rope,
                                const PoolView& pages, PerThread& mine) {
  const UnrotatedItem& run = runs.front();
  const bool more = runs.size() > 1;
  const UnrotatedItem& next = runs[more ? 1 : 0];
  const uint32_t head_dim = pages.geometry.head_dim;
  const uint32_t heads = pages.geometry.num_kv_heads;
  const uint32_t before_sample = pages.geometry.page_tokens - 1;
  float* directions = mine.floats.Get(size_t{heads} * head_dim);  // [heads, head_dim]
  std::fill_n(directions, size_t{heads} * head_dim, 0.0f);
  TokenCursor sample(run, rope, pages, before_sample + run.stride, run.stride);
  TokenCursor ahead(next, rope, pages, before_sample + next.stride * (more ? 1 : 1 + kSampleAhead),
                    next.stride);
  uint32_t samples = 0;
  for (; sample.more(); sample.Next(), ahead.Next(), ++samples) {
    ahead.Fetch();
    kernels_.add_unrotated(sample.Keys(), directions);
  }
  for (uint32_t head = 0; head < heads; ++head) {
    NegateDirection(directions + size_t{head} * head_dim, head_dim, samples);
  }
  TokenCursor token(run, rope, pages, run.first, 1);
  TokenCursor token_ahead(next, rope, pages, more ? next.first : next.tokens, 1);
  for (; token.more(); token.Next(), token_ahead.Next()) {
    token_ahead.Fetch();
    kernels_.project_unrotated(token.Keys(), directions, token.Scores());
  }
}

}  // namespace folio::kernels::cpu::fast
