#include "kernels/cpu/plain_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/plain_loops.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::plain {
namespace {

constexpr uint32_t kRowBlock = 8;

// Some rows of a run, in one KV head: a task.
struct Tile {
  const AttentionItem* run;
  uint32_t first_row;  // in the run
  uint32_t rows;
  uint32_t kv_head;
};

std::vector<Tile> MakeTiles(absl::Span<const AttentionItem> runs, uint32_t kv_heads) {
  std::vector<Tile> tiles;
  for (const AttentionItem& run : runs) {
    FOLIO_CHECK(run.rows > 0 && run.context >= run.rows);
    for (uint32_t row = 0; row < run.rows; row += kRowBlock) {
      for (uint32_t head = 0; head < kv_heads; ++head) {
        tiles.push_back({&run, row, std::min(kRowBlock, run.rows - row), head});
      }
    }
  }
  return tiles;
}

// Scores to probabilities, except for the division by their sum, which is returned.
float Exponentials(float* score, uint32_t count, float scale) {
  float max = score[0];
  for (uint32_t t = 1; t < count; ++t) max = std::max(max, score[t]);
  float sum = 0;
  for (uint32_t t = 0; t < count; ++t) {
    score[t] = std::exp((score[t] - max) * scale);
    sum += score[t];
  }
  return sum;
}

// One row, all query heads of one KV head. q and out: [group, head_dim] with head_dim stride.
void AttendRow(Matrix<const float> q, const AttentionItem& run, SlotRange slots, uint32_t kv_head,
               const PoolView& pages, std::vector<float>& scratch, Matrix<float> out) {
  const CacheGeometry& geometry = pages.geometry;
  const uint32_t count = slots.count();
  const float scale = 1.0f / std::sqrt(float(geometry.head_dim));
  scratch.resize(q.rows * size_t{count});
  ForPages(run, slots, geometry.page_tokens,
           [&](uint32_t page, uint32_t first, uint32_t tokens, uint32_t at) {
             FOLIO_CHECK(page < pages.num_pages);
             BestLoops().dots(q, HeadRows(pages.keys(page), geometry, kv_head, first, tokens),
                              {scratch.data() + at, q.rows, tokens, count});
           });
  for (size_t g = 0; g < q.rows; ++g) {
    float* score = scratch.data() + g * count;
    const float inverse = 1.0f / Exponentials(score, count, scale);
    for (uint32_t t = 0; t < count; ++t) score[t] *= inverse;
    std::fill_n(out.row(g), out.cols, 0.0f);
  }
  ForPages(run, slots, geometry.page_tokens,
           [&](uint32_t page, uint32_t first, uint32_t tokens, uint32_t at) {
             BestLoops().weighted_sums(
                 {scratch.data() + at, q.rows, tokens, count},
                 HeadRows(pages.values(page), geometry, kv_head, first, tokens), out);
           });
}

}  // namespace

void Attention(ThreadPool& pool, Matrix<const float> q, absl::Span<const AttentionItem> runs,
               const AttentionShape& shape, const PoolView& pages, Matrix<float> out) {
  FOLIO_CHECK(shape.heads % shape.kv_heads == 0 && pages.geometry.head_dim == shape.head_dim &&
              pages.geometry.num_kv_heads == shape.kv_heads);
  const size_t group = shape.heads / shape.kv_heads;
  const size_t dim = shape.head_dim;
  const std::vector<Tile> tiles = MakeTiles(runs, shape.kv_heads);
  std::vector<std::vector<float>> scratch(pool.threads());
  pool.ParallelFor(static_cast<int>(tiles.size()), [&](int task, int thread) {
    const Tile& tile = tiles[task];
    const AttentionItem& run = *tile.run;
    for (uint32_t i = tile.first_row; i < tile.first_row + tile.rows; ++i) {
      const size_t column = tile.kv_head * group * dim;
      AttendRow({q.row(run.first_row + i) + column, group, dim, dim}, run, SlotsOf(run, i),
                tile.kv_head, pages, scratch[thread],
                {out.row(run.first_row + i) + column, group, dim, dim});
    }
  });
}

}  // namespace folio::kernels::cpu::plain
