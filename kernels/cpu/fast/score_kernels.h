// Arguments of the scoring kernels in a KernelTable (kernels.h).
#ifndef FOLIO_KERNELS_CPU_FAST_SCORE_KERNELS_H_
#define FOLIO_KERNELS_CPU_FAST_SCORE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/fast/attention_kernels.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Vectors over head_dim are kept as the kernels meet the elements: for each `lanes` neighbouring
// pairs, first the even elements, then the odd ones; AccStride(head_dim) floats, zeros at the end.

// sum += k / ||k|| for a tile of keys, in their order. A key whose squares sum to less than FLT_MIN
// counts as zero.
struct DirectionSum {
  const bf16* const* keys;  // [kKeyTile] pointers to [head_dim]; zeros behind the last
  const bf16* const* next;  // the tile wanted after it, which is fetched meanwhile, or null
  uint32_t head_dim;
  float* inverse;  // [kKeyTile] out: 1 / ||k||, or 0
  float* sum;      // [AccStride(head_dim)]
};

// score = (k . direction) * inverse for a tile of keys.
struct Projection {
  const bf16* const* keys;  // as above
  uint32_t head_dim;
  const float* inverse;    // [kKeyTile]
  const float* direction;  // [AccStride(head_dim)]
  float* score;            // [kKeyTile] out
};

// The keys that one token has in its KV heads, to be turned back by the angles of its position: of
// head h, x_h. add_unrotated: sums[h] += x_h / ||x_h||; project_unrotated: score[h] = x_h .
// directions[h] / ||x_h||. Sums and directions are [heads, head_dim] in the keys' own order.
// Vanishing keys count as above.
struct UnrotatedKeys {
  const bf16* keys;  // [heads] of [head_dim] as stored, `stride` elements apart
  size_t stride;
  const float* cos;  // [head_dim / 2] of the position
  const float* sin;
  uint32_t heads;
  uint32_t head_dim;
};

// mass += weight * (the query's share) over the query rows, for each key of a tile. Of the flash
// tile are used q, keys, valid, scale, and max, which is the rows' final one.
struct ShareTile {
  FlashTile queries;
  const float* weight;  // [rows] 1 / (sum of the row's exponentials), and what the mean wants
  float* mass;          // [kKeyTile]
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_SCORE_KERNELS_H_
