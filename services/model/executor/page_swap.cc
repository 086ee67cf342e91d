#include "services/model/executor/page_swap.h"

#include <algorithm>
#include <cstring>

#include "services/base/check.h"

namespace folio::model {
namespace {

void CheckInside(const kernels::PoolView& pool, const PageSwap& swap) {
  FOLIO_CHECK(swap.page.value() < pool.num_pages);
  FOLIO_CHECK(swap.slot.value() < pool.swap.num_slots);
}

}  // namespace

void CopyPage(const kernels::PoolView& pool, bool out, const PageSwap& swap) {
  CheckInside(pool, swap);
  const size_t bytes = pool.geometry.page_bytes();
  void* page = pool.keys(swap.page.value());
  void* slot = pool.swap_page(swap.slot.value());
  std::memcpy(out ? slot : page, out ? page : slot, bytes);
}

void CopyScores(const kernels::PoolView& pool, bool out, const PageSwap& swap) {
  CheckInside(pool, swap);
  if (pool.scores == nullptr) return;
  kernels::PoolView on_host = pool;
  on_host.scores = pool.swap.board;
  const uint32_t heads = pool.geometry.num_kv_heads;
  float* slot = pool.swap_scores(swap.slot.value());
  for (uint32_t channel = 0; channel < CacheGeometry::kScoreChannels; ++channel) {
    float* row = on_host.page_scores(swap.page.value(), channel);
    for (uint32_t token = 0; token < pool.geometry.page_tokens; ++token) {
      std::copy_n(out ? row : slot, heads, out ? slot : row);
      row += on_host.score_stride();
      slot += heads;
    }
  }
}

}  // namespace folio::model
