// CacheGeometry is the shape of a KV cache, which is the contents of a page and the number of
// layers, with the windows that some of them may have.
#ifndef FOLIO_SERVICES_BASE_GEOMETRY_H_
#define FOLIO_SERVICES_BASE_GEOMETRY_H_

#include <cstddef>
#include <cstdint>

#include "services/base/layer_windows.h"

namespace folio {

// The memory of a page is `[K, V][kv_head][token][head_dim]` of bfloat16. The scores of a page are
// `float[token][kv_head]` in each channel of the score board. The fields are plain numbers, because
// this header defines them.
struct CacheGeometry {
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t page_tokens = 16;
  LayerWindows windows = {};

  static constexpr size_t kElementBytes = 2;
  // Channels of the score board, [channel][page]. The first has the scores that every decision
  // reads, the second those that only the decision at the prompt's end reads. The board is shared
  // memory, so that an unused channel takes no physical memory.
  static constexpr uint32_t kScoreChannels = 2;

  constexpr size_t page_bytes() const {
    return size_t{2} * num_kv_heads * page_tokens * head_dim * kElementBytes;
  }
  constexpr size_t scores_per_page() const { return size_t{page_tokens} * num_kv_heads; }
  constexpr size_t score_board_floats(size_t pages) const {
    return kScoreChannels * pages * scores_per_page();
  }
  // A copy of a page and of its scores in all channels.
  constexpr size_t swap_slot_bytes() const {
    return page_bytes() + score_board_floats(1) * sizeof(float);
  }
  constexpr size_t kv_bytes_per_token() const { return page_bytes() / page_tokens * num_layers; }
  constexpr uint32_t pages_for(uint32_t tokens) const {
    return (tokens + page_tokens - 1) / page_tokens;
  }

  friend constexpr bool operator==(const CacheGeometry&, const CacheGeometry&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_GEOMETRY_H_
