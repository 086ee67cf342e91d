// This header defines the arguments of the scoring kernels in a KernelTable (kernels.h).
#ifndef FOLIO_KERNELS_CPU_FAST_SCORE_KERNELS_H_
#define FOLIO_KERNELS_CPU_FAST_SCORE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/fast/attention_kernels.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Vectors over head_dim are kept in the order in which the kernels meet the elements. For each
// `lanes` neighbouring pairs the even elements come first and then the odd ones. A vector has
// AccStride(head_dim) floats, with zeros at the end.

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

// The keys of one token in all its KV heads. Kernels turn them back by the angles of the token's
// position, which gives x_h for head h. The kernel add_unrotated does sums[h] += x_h / ||x_h||, and
// project_unrotated does score[h] = x_h . directions[h] / ||x_h||. Sums and directions are
// [heads, head_dim] in the keys' own order. Vanishing keys count as above.
struct UnrotatedKeys {
  const bf16* keys;  // [heads] of [head_dim] as stored, `stride` elements apart
  size_t stride;
  const float* cos;  // [head_dim / 2] of the position
  const float* sin;
  uint32_t heads;
  uint32_t head_dim;
};

// A step of the online softmax that keeps the exponentials. It uses the flash tile without values,
// skip, next and acc.
struct WindowTile {
  FlashTile queries;
  float* kept;   // [rows, kKeyTile] 2^(score - peak), 0 for a key that the row does not see
  float* peaks;  // [rows] the row's maximum after this tile
};

// mass += weight * 2^(peak - max) * kept over the query rows, for each key of a tile.
struct ShareTile {
  const float* kept;    // as WindowTile
  const float* peaks;   // as WindowTile
  const float* max;     // [rows] of all keys
  const float* weight;  // [rows] 1 / (sum of the row's exponentials), times the mean's factor
  uint32_t rows;
  float* mass;  // [kKeyTile]
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_SCORE_KERNELS_H_
