// This header has helpers that address token slots, as whole tiles of keys and as one KV head's
// column of the score board.
#ifndef FOLIO_KERNELS_CPU_FAST_BOARD_ROWS_H_
#define FOLIO_KERNELS_CPU_FAST_BOARD_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/fast/attention_kernels.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Slots of as many tiles as hold `tokens`.
inline uint32_t WholeTiles(uint32_t tokens) {
  return (tokens + kKeyTile - 1) / kKeyTile * kKeyTile;
}

struct ScoreRows {
  const uint32_t* table;
  uint32_t channel;
};

// Writes one KV head's scores of `count` slots from `slot` on.
inline void PutScores(const PoolView& pages, const ScoreRows& rows, uint32_t kv_head, uint32_t slot,
                      const float* score, uint32_t count) {
  const CacheGeometry& geometry = pages.geometry;
  for (uint32_t i = 0; i < count;) {
    const uint32_t offset = (slot + i) % geometry.page_tokens;
    float* to = pages.page_scores(rows.table[(slot + i) / geometry.page_tokens], rows.channel) +
                size_t{offset} * pages.score_stride() + kv_head;
    const uint32_t stop = std::min(count, i + geometry.page_tokens - offset);
    for (; i < stop; ++i, to += pages.score_stride()) *to = score[i];
  }
}

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_BOARD_ROWS_H_
