// This header defines the arguments of the attention kernels in a KernelTable (kernels.h).
#ifndef FOLIO_KERNELS_CPU_FAST_ATTENTION_KERNELS_H_
#define FOLIO_KERNELS_CPU_FAST_ATTENTION_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// One tile of keys or values, brought into panels. `next` is the tile wanted after it, which is
// fetched meanwhile (pages are too short and too scattered for the hardware to guess), or null.
struct PackTile {
  const bf16* const* rows;  // [kKeyTile] pointers to [head_dim]
  const bf16* const* next;
  uint32_t head_dim;
  uint32_t* out;
};

// The maximum before the first score. It is finite, so that a tile that a row does not see changes
// nothing, also where it comes before all others, as with a window.
inline constexpr float kNoPeak = -3.4e38f;

// One step of the online softmax in base 2: query rows of one head, or of the heads of one KV head,
// against one tile of keys. The method is by Milakov and Gimelshein (arXiv 1805.02867) and Dao et
// al. (FlashAttention, arXiv 2205.14135).
struct FlashTile {
  const bf16* q;  // [rows, head_dim], q_stride
  size_t q_stride;
  uint32_t rows;
  uint32_t head_dim;
  const uint32_t* keys;     // kKeyTile columns in panels over head_dim
  const uint32_t* values;   // head_dim columns in panels over kKeyTile
  const int32_t* valid;     // [rows] keys of the tile the row sees: <= 0 none, >= kKeyTile all
  const int32_t* skip;      // [rows] keys at its front that the row leaves out, or null for none
  float scale;              // log2(e) / sqrt(head_dim)
  const bf16* const* next;  // [kKeyTile] values of the tile wanted after this one, or null
  float* max;               // [rows]; starts at kNoPeak
  float* sum;               // [rows][lanes]; starts at 0
  float* acc;               // [rows, AccStride(head_dim)]; starts at 0
};

// Decode rows are attended in parts of this many slots, counted from slot 0 of the sequence.
inline constexpr uint32_t kDecodePartTokens = 256;
inline constexpr uint32_t kDecodeHeads = 16;  // query heads of one KV head, at most
inline constexpr uint32_t kFetchBlocks = 8;   // blocks that are fetched ahead

// The query heads of one KV head of one decode row against a part of its keys and values, which are
// read where they lie in the pages. The softmax state is that of FlashTile, for this part alone.
struct DecodePart {
  const bf16* q;  // [rows, head_dim]
  uint32_t rows;
  uint32_t head_dim;
  uint32_t count;  // keys, 1..kDecodePartTokens
  uint32_t skip;   // of which the row leaves out so many at the front, less than a block
  // [ceil(count / lanes)] blocks of keys, then as many of values, then kFetchBlocks that are wanted
  // next; each [lanes, head_dim] in one page.
  const bf16* const* blocks;
  float scale;  // log2(e) / sqrt(head_dim)
  float* max;   // [rows]
  float* sum;   // [rows][lanes]
  float* acc;   // [rows, head_dim]
};

// True for the shapes that DecodePart serves. Decode rows of other shapes use the prompts' kernels.
constexpr bool DecodesInPlace(uint32_t page_tokens, uint32_t lanes, uint32_t head_dim,
                              uint32_t rows) {
  return page_tokens % lanes == 0 && (head_dim == 64 || head_dim == 128) && rows <= kDecodeHeads;
}

// Partial results of one row, `parts` of them in order, become the row's output.
struct FlashMerge {
  const float* max;  // part p at max + p * stride, likewise the others
  const float* sum;
  const float* acc;
  size_t stride;
  uint32_t parts;
  uint32_t head_dim;
  bf16* out;  // [head_dim]
};

// Columns of a value tile, and floats of an accumulator row: head_dim rounded up to whole panels.
constexpr uint32_t AccStride(uint32_t head_dim, uint32_t lanes) {
  return (head_dim + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
}

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_ATTENTION_KERNELS_H_
