// Batch is random sequences in pages of a pool, with the tables that attention reads of them.
#ifndef FOLIO_TESTS_GPU_ATTENTION_BATCH_H_
#define FOLIO_TESTS_GPU_ATTENTION_BATCH_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "tests/gpu/device_runs.h"

namespace folio::kernels::cuda {

struct Sequence {
  uint32_t context, rows;
};

// Numbers are bf16. fp16 holds them too, except for the smallest.
struct Batch {
  // With a window its rows attend to the latest `window` tokens alone.
  Batch(Random& random, const ScoreShape& s, const std::vector<Sequence>& sequences,
        uint32_t window = 0)
      : shape{s.kv_heads * s.group, s.kv_heads, s.head_dim},
        pool(random, 700, s.kv_heads, s.head_dim, s.page_tokens) {
    for (const auto& [context, rows] : sequences) {
      tables.push_back(pool.Table(context));
      cpu::SpoilRest(pool, {tables.back(), context});
      SpoilValues(tables.back(), context);
      pages.insert(pages.end(), tables.back().begin(), tables.back().end());
      runs.push_back(
          {static_cast<uint32_t>(row_starts.back()), rows, tables.back().data(), context, window});
      row_starts.push_back(row_starts.back() + static_cast<int32_t>(rows));
      page_starts.push_back(static_cast<int32_t>(pages.size()));
      contexts.push_back(static_cast<int32_t>(context));
      last_tokens.push_back(static_cast<int32_t>((context - 1) % s.page_tokens + 1));
    }
    for (size_t i = 0; i < runs.size(); ++i) runs[i].pages = tables[i].data();
    // Scores spread over some +-10.
    q = cpu::RandomBf16(random, size_t{rows()} * cols(), 10.0f / std::sqrt(float(s.head_dim)));
  }
  // NaN as the values of the slots behind a context.
  void SpoilValues(const std::vector<uint32_t>& table, uint32_t context) {
    const CacheGeometry& g = pool.geometry;
    const uint32_t used = (context - 1) % g.page_tokens + 1;
    bf16* values = pool.view().values(table.back());
    for (uint32_t head = 0; head < g.num_kv_heads; ++head) {
      std::fill_n(values + (size_t{head} * g.page_tokens + used) * g.head_dim,
                  size_t{g.page_tokens - used} * g.head_dim, bf16{0x7fc0});
    }
  }
  uint32_t rows() const { return static_cast<uint32_t>(row_starts.back()); }
  uint32_t cols() const { return shape.heads * shape.head_dim; }

  AttentionShape shape;
  RandomPool pool;
  std::vector<std::vector<uint32_t>> tables;
  std::vector<AttentionItem> runs;
  std::vector<int32_t> pages, row_starts{0}, page_starts{0}, last_tokens, contexts;
  std::vector<bf16> q;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_TESTS_GPU_ATTENTION_BATCH_H_
