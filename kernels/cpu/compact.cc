#include <cstring>

#include "kernels/cpu/ops.h"
#include "services/base/check.h"

namespace folio::kernels::cpu {

// In place and in ascending order: a slot is only ever overwritten after it was moved or dropped.
void CompactLayer(const PoolView& pool, absl::Span<const uint32_t> table,
                  absl::Span<const uint32_t> keep) {
  const CacheGeometry& geometry = pool.geometry;
  const uint32_t page_tokens = geometry.page_tokens;
  const size_t head_dim = geometry.head_dim;
  for (uint32_t to = 0; to < keep.size(); ++to) {
    const uint32_t from = keep[to];
    FOLIO_DCHECK(to == 0 || keep[to - 1] < from);
    FOLIO_DCHECK(from / page_tokens < table.size());
    if (from == to) continue;
    const uint32_t source = table[from / page_tokens];
    const uint32_t target = table[to / page_tokens];
    const uint32_t source_offset = from % page_tokens;
    const uint32_t target_offset = to % page_tokens;
    // K and V follow each other: [K heads | V heads][token][head_dim].
    for (uint32_t head = 0; head < 2 * geometry.num_kv_heads; ++head) {
      const size_t base = size_t{head} * page_tokens;
      std::memcpy(pool.keys(target) + (base + target_offset) * head_dim,
                  pool.keys(source) + (base + source_offset) * head_dim, head_dim * sizeof(bf16));
    }
    if (pool.scores != nullptr) {
      std::memcpy(pool.page_scores(target) + size_t{target_offset} * pool.score_stride(),
                  pool.page_scores(source) + size_t{source_offset} * pool.score_stride(),
                  geometry.num_kv_heads * sizeof(float));
    }
  }
}

void ClearPage(const PoolView& pool, uint32_t page) {
  FOLIO_DCHECK(page < pool.num_pages);
  std::memset(static_cast<void*>(pool.keys(page)), 0, pool.geometry.page_bytes());
}

}  // namespace folio::kernels::cpu
