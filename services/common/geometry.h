// The shape of a KV cache: what one page holds and how many layers there are.
#ifndef FOLIO_SERVICES_COMMON_GEOMETRY_H_
#define FOLIO_SERVICES_COMMON_GEOMETRY_H_

#include <cstddef>
#include <cstdint>

namespace folio {

// Page memory is `[K, V][kv_head][token][head_dim]` of bfloat16; score memory of a page is
// `float[token][kv_head]` in each plane of the score board. Plain numbers: this is where they are
// defined.
struct CacheGeometry {
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t page_tokens = 16;

  static constexpr size_t kElementBytes = 2;
  // Planes of the score board, [plane][page]. The first holds what decisions go by throughout; the
  // second what only the decision at the prompt's end reads. Memory that nobody writes costs none.
  static constexpr uint32_t kScorePlanes = 2;

  constexpr size_t page_bytes() const {
    return size_t{2} * num_kv_heads * page_tokens * head_dim * kElementBytes;
  }
  constexpr size_t scores_per_page() const { return size_t{page_tokens} * num_kv_heads; }
  constexpr size_t score_board_floats(size_t pages) const {
    return kScorePlanes * pages * scores_per_page();
  }
  constexpr size_t kv_bytes_per_token() const { return page_bytes() / page_tokens * num_layers; }
  constexpr uint32_t pages_for(uint32_t tokens) const {
    return (tokens + page_tokens - 1) / page_tokens;
  }

  friend constexpr bool operator==(const CacheGeometry&, const CacheGeometry&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_GEOMETRY_H_
