#include "kernels/cpu/plain_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/plain_attention.h"
#include "kernels/cpu/plain_loops.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::plain {
namespace {

constexpr double kMinSquares = std::numeric_limits<float>::min();

double Dot(const bf16* key, const double* x, uint32_t dim) {
  double sum = 0;
  for (uint32_t i = 0; i < dim; ++i) sum += key[i].ToFloat() * x[i];
  return sum;
}

// 1 / ||x||2, or 0 where the squares' sum is too small to tell a direction.
double InverseNorm(double squares) { return squares < kMinSquares ? 0 : 1 / std::sqrt(squares); }

double Squares(const bf16* key, uint32_t dim) {
  double sum = 0;
  for (uint32_t i = 0; i < dim; ++i) sum += double{key[i].ToFloat()} * key[i].ToFloat();
  return sum;
}

// One KV head of one sequence, in one layer.
struct HeadTokens {
  const PoolView& pages;
  const uint32_t* table;
  uint32_t head;

  const bf16* key(uint32_t slot) const {
    const CacheGeometry& geometry = pages.geometry;
    return HeadRows(pages.keys(table[slot / geometry.page_tokens]), geometry, head, 0,
                    geometry.page_tokens)
        .row(slot % geometry.page_tokens);
  }
  float& score(uint32_t slot, uint32_t channel = 0) const {
    const CacheGeometry& geometry = pages.geometry;
    return pages.page_scores(
        table[slot / geometry.page_tokens],
        channel)[size_t{slot % geometry.page_tokens} * pages.score_stride() + head];
  }
};

// Divides a sum of `count` unit vectors by its length, or clears it where it tells no direction.
void Normalise(std::vector<double>& sum, uint32_t count) {
  double squares = 0;
  for (const double x : sum) squares += x * x;
  const double norm = std::sqrt(squares);
  for (double& x : sum) x *= norm == 0 || norm < kMinMeanNorm * count ? 0 : 1 / norm;
}

void ScoreHead(const ResidentItem& run, uint32_t head, const PoolView& pages,
               std::vector<double>& direction) {
  const uint32_t dim = pages.geometry.head_dim;
  const HeadTokens tokens{pages, run.pages, head};
  direction.assign(dim, 0);
  for (uint32_t slot = 0; slot < run.tokens; ++slot) {
    const bf16* key = tokens.key(slot);
    const double inverse = InverseNorm(Squares(key, dim));
    for (uint32_t i = 0; i < dim; ++i) direction[i] += key[i].ToFloat() * inverse;
  }
  Normalise(direction, run.tokens);
  for (uint32_t slot = 0; slot < run.tokens; ++slot) {
    const bf16* key = tokens.key(slot);
    const double cosine = Dot(key, direction.data(), dim) * InverseNorm(Squares(key, dim));
    tokens.score(slot) = static_cast<float>(-cosine);
  }
}

// The key turned back by the angles of `position`, of length 1, or zeros if it has no direction.
void Unrotate(const bf16* key, uint32_t position, const RopeTable& rope, uint32_t dim,
              std::vector<double>& out) {
  const uint32_t half = dim / 2;
  const double inverse = InverseNorm(Squares(key, dim));
  out.resize(dim);
  for (uint32_t i = 0; i < half; ++i) {
    const double cos = rope.cos[size_t{position} * half + i];
    const double sin = rope.sin[size_t{position} * half + i];
    const double a = key[i].ToFloat();
    const double b = key[half + i].ToFloat();
    out[i] = (a * cos + b * sin) * inverse;
    out[half + i] = (b * cos - a * sin) * inverse;
  }
}

struct UnrotatedScratch {
  std::vector<double> key, direction;
};

void ScoreUnrotatedHead(const UnrotatedItem& run, uint32_t head, const RopeTable& rope,
                        const PoolView& pages, UnrotatedScratch& scratch) {
  const uint32_t dim = pages.geometry.head_dim;
  const HeadTokens tokens{pages, run.pages, head};
  std::vector<double>& key = scratch.key;
  scratch.direction.assign(dim, 0);
  uint32_t sample = 0;
  for (uint32_t slot = pages.geometry.page_tokens - 1 + run.stride; slot < run.tokens;
       slot += run.stride, ++sample) {
    Unrotate(tokens.key(slot), run.positions[slot], rope, dim, key);
    for (uint32_t i = 0; i < dim; ++i) scratch.direction[i] += key[i];
  }
  Normalise(scratch.direction, sample);
  for (uint32_t slot = run.first; slot < run.tokens; ++slot) {
    Unrotate(tokens.key(slot), run.positions[slot], rope, dim, key);
    double cosine = 0;
    for (uint32_t i = 0; i < dim; ++i) cosine += key[i] * scratch.direction[i];
    tokens.score(slot) = static_cast<float>(-cosine);
  }
}

// Adds one query's share for each slot that it sees to `mass`.
void AddShares(const float* q, const AttentionItem& run, SlotRange slots, uint32_t kv_head,
               const PoolView& pages, std::vector<float>& score, std::vector<double>& mass) {
  const size_t dim = pages.geometry.head_dim;
  score.resize(slots.count());
  ForPages(run, slots, pages.geometry.page_tokens,
           [&](uint32_t page, uint32_t first, uint32_t tokens, uint32_t at) {
             BestLoops().dots({q, 1, dim, dim},
                              HeadRows(pages.keys(page), pages.geometry, kv_head, first, tokens),
                              {score.data() + at, 1, tokens, slots.count()});
           });
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  const float max = *std::max_element(score.begin(), score.end());
  double sum = 0;
  for (float& s : score) {
    s = static_cast<float>(std::exp((double{s} - double{max}) * scale));
    sum += s;
  }
  for (uint32_t t = 0; t < slots.count(); ++t) mass[slots.first + t] += score[t] / sum;
}

struct WindowScratch {
  std::vector<double> mass;  // [slot] summed over queries
  std::vector<float> score;  // of one query
};

void WindowHead(Matrix<const float> q, const WindowItem& window, uint32_t kv_head,
                const AttentionShape& shape, const PoolView& pages, WindowScratch& scratch) {
  const AttentionItem& run = window.queries;
  const uint32_t group = shape.heads / shape.kv_heads;
  scratch.mass.assign(run.context, 0);
  for (uint32_t i = 0; i < run.rows; ++i) {
    for (uint32_t g = 0; g < group; ++g) {
      const size_t column = (size_t{kv_head} * group + g) * shape.head_dim;
      AddShares(q.row(run.first_row + i) + column, run, SlotsOf(run, i), kv_head, pages,
                scratch.score, scratch.mass);
    }
  }
  const double queries = static_cast<double>(run.rows) * group;
  const HeadTokens tokens{pages, run.pages, kv_head};
  for (uint32_t slot = 0; slot < run.context; ++slot) {
    const uint32_t first = slot - std::min(slot, window.neighbours);
    const uint32_t end = static_cast<uint32_t>(
        std::min<uint64_t>(run.context, uint64_t{slot} + window.neighbours + 1));
    const double* highest = std::max_element(&scratch.mass[first], scratch.mass.data() + end);
    tokens.score(slot, window.channel) = static_cast<float>(*highest / queries);
  }
}

}  // namespace

void ScoreResident(ThreadPool& pool, absl::Span<const ResidentItem> runs, const PoolView& pages) {
  if (pages.scores == nullptr) return;
  const uint32_t heads = pages.geometry.num_kv_heads;
  std::vector<std::vector<double>> direction(pool.threads());
  pool.ParallelFor(static_cast<int>(runs.size() * heads), [&](int task, int thread) {
    ScoreHead(runs[task / heads], task % heads, pages, direction[thread]);
  });
}

void ScoreUnrotated(ThreadPool& pool, absl::Span<const UnrotatedItem> runs, const RopeTable& rope,
                    const PoolView& pages) {
  if (pages.scores == nullptr) return;
  const uint32_t heads = pages.geometry.num_kv_heads;
  std::vector<UnrotatedScratch> scratch(pool.threads());
  pool.ParallelFor(static_cast<int>(runs.size() * heads), [&](int task, int thread) {
    ScoreUnrotatedHead(runs[task / heads], task % heads, rope, pages, scratch[thread]);
  });
}

void ScoreWindow(ThreadPool& pool, Matrix<const float> q, absl::Span<const WindowItem> runs,
                 const AttentionShape& shape, const PoolView& pages) {
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && pages.geometry.head_dim == shape.head_dim &&
              pages.geometry.num_kv_heads == shape.kv_heads);
  if (pages.scores == nullptr) return;
  std::vector<WindowScratch> scratch(pool.threads());
  pool.ParallelFor(static_cast<int>(runs.size() * shape.kv_heads), [&](int task, int thread) {
    const WindowItem& run = runs[task / shape.kv_heads];
    FOLIO_CHECK(run.queries.rows > 0 && run.queries.context >= run.queries.rows);
    WindowHead(q, run, task % shape.kv_heads, shape, pages, scratch[thread]);
  });
}

}  // namespace folio::kernels::cpu::plain
