#include "kernels/cpu/plain_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/plain_attention.h"
#include "kernels/cpu/plain_loops.h"
#include "services/common/check.h"

namespace folio::kernels::cpu::plain {
namespace {

constexpr double kLeastSquares = std::numeric_limits<float>::min();

double Dot(const bf16* key, const double* x, uint32_t dim) {
  double sum = 0;
  for (uint32_t i = 0; i < dim; ++i) sum += key[i].ToFloat() * x[i];
  return sum;
}

// 1 / ||x||2, or 0 where the squares' sum is too small to tell a direction.
double InverseNorm(double squares) { return squares < kLeastSquares ? 0 : 1 / std::sqrt(squares); }

double Squares(const bf16* key, uint32_t dim) {
  double sum = 0;
  for (uint32_t i = 0; i < dim; ++i) sum += double{key[i].ToFloat()} * key[i].ToFloat();
  return sum;
}

// body(key, score) for each token of one KV head.
template <typename Body>
void ForTokens(const PoolView& pages, const uint32_t* table, uint32_t tokens, uint32_t head,
               Body body) {
  const CacheGeometry& geometry = pages.geometry;
  for (uint32_t t = 0; t < tokens; ++t) {
    const uint32_t page = table[t / geometry.page_tokens];
    const uint32_t offset = t % geometry.page_tokens;
    body(HeadRows(pages.keys(page), geometry, head, geometry.page_tokens).row(offset),
         pages.page_scores(page)[size_t{offset} * geometry.num_kv_heads + head]);
  }
}

void ScoreHead(const ResidentRun& run, uint32_t head, const PoolView& pages,
               std::vector<double>& direction) {
  const uint32_t dim = pages.geometry.head_dim;
  direction.assign(dim, 0);
  ForTokens(pages, run.pages, run.tokens, head, [&](const bf16* key, float&) {
    const double inverse = InverseNorm(Squares(key, dim));
    for (uint32_t i = 0; i < dim; ++i) direction[i] += key[i].ToFloat() * inverse;
  });
  double squares = 0;
  for (const double x : direction) squares += x * x;
  const double norm = std::sqrt(squares);
  for (double& x : direction) x *= norm < kLeastMeanNorm * run.tokens ? 0 : 1 / norm;
  ForTokens(pages, run.pages, run.tokens, head, [&](const bf16* key, float& score) {
    const double cosine = Dot(key, direction.data(), dim) * InverseNorm(Squares(key, dim));
    score = static_cast<float>(-cosine);
  });
}

// Adds to `mass` what one query gives to each slot it sees.
void AddShares(const float* q, const AttentionRun& run, uint32_t visible, uint32_t kv_head,
               const PoolView& pages, std::vector<float>& score, std::vector<double>& mass) {
  const uint32_t page_tokens = pages.geometry.page_tokens;
  const size_t dim = pages.geometry.head_dim;
  score.resize(visible);
  for (uint32_t t = 0; t < visible; t += page_tokens) {
    const uint32_t tokens = std::min(page_tokens, visible - t);
    BestLoops().dots(
        {q, 1, dim, dim},
        HeadRows(pages.keys(run.pages[t / page_tokens]), pages.geometry, kv_head, tokens),
        {score.data() + t, 1, tokens, visible});
  }
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  const float max = *std::max_element(score.begin(), score.end());
  double sum = 0;
  for (float& s : score) {
    s = static_cast<float>(std::exp((double{s} - double{max}) * scale));
    sum += s;
  }
  for (uint32_t t = 0; t < visible; ++t) mass[t] += score[t] / sum;
}

struct WindowScratch {
  std::vector<double> mass;  // [slot] summed over queries
  std::vector<float> score;  // of one query
};

void WindowHead(Matrix<const float> q, const AttentionRun& run, uint32_t kv_head,
                const AttentionShape& shape, const PoolView& pages, WindowScratch& scratch) {
  const uint32_t group = shape.heads / shape.kv_heads;
  scratch.mass.assign(run.context, 0);
  for (uint32_t i = 0; i < run.rows; ++i) {
    const uint32_t visible = run.context - run.rows + 1 + i;
    for (uint32_t g = 0; g < group; ++g) {
      const size_t column = (size_t{kv_head} * group + g) * shape.head_dim;
      AddShares(q.row(run.first_row + i) + column, run, visible, kv_head, pages, scratch.score,
                scratch.mass);
    }
  }
  uint32_t slot = 0;
  const double queries = static_cast<double>(run.rows) * group;
  ForTokens(pages, run.pages, run.context, kv_head, [&](const bf16*, float& score) {
    const uint32_t first = slot - std::min(slot, kWindowNeighbours);
    const uint32_t end = std::min(run.context, slot + kWindowNeighbours + 1);
    score = static_cast<float>(*std::max_element(&scratch.mass[first], scratch.mass.data() + end) /
                               queries);
    ++slot;
  });
}

}  // namespace

void ScoreResident(ThreadPool& pool, absl::Span<const ResidentRun> runs, const PoolView& pages) {
  if (pages.scores == nullptr) return;
  const uint32_t heads = pages.geometry.num_kv_heads;
  std::vector<std::vector<double>> direction(pool.threads());
  pool.ParallelFor(static_cast<int>(runs.size() * heads), [&](int task, int thread) {
    ScoreHead(runs[task / heads], task % heads, pages, direction[thread]);
  });
}

void ScoreWindow(ThreadPool& pool, Matrix<const float> q, absl::Span<const AttentionRun> runs,
                 const AttentionShape& shape, const PoolView& pages) {
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && pages.geometry.head_dim == shape.head_dim &&
              pages.geometry.num_kv_heads == shape.kv_heads);
  if (pages.scores == nullptr) return;
  std::vector<WindowScratch> scratch(pool.threads());
  pool.ParallelFor(static_cast<int>(runs.size() * shape.kv_heads), [&](int task, int thread) {
    const AttentionRun& run = runs[task / shape.kv_heads];
    FOLIO_CHECK(run.rows > 0 && run.context >= run.rows);
    WindowHead(q, run, task % shape.kv_heads, shape, pages, scratch[thread]);
  });
}

}  // namespace folio::kernels::cpu::plain
