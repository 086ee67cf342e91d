// What an instruction set brings to the fast family: single-threaded kernels on raw memory. One
// table per instruction set, filled from the same templates (gemm.inl.h, rows.inl.h,
// attention.inl.h); scheduling, threads and scratch are in the callers.
//
// The files that fill tables are compiled for their instruction set. They must not instantiate
// shared inline code (std, absl): the linker would keep one copy for all, perhaps theirs.
#ifndef FOLIO_KERNELS_CPU_FAST_KERNELS_H_
#define FOLIO_KERNELS_CPU_FAST_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Keys are attended in tiles of this many slots, counted from slot 0 of the sequence.
inline constexpr uint32_t kKeyTile = 64;
inline constexpr uint32_t kMaxLanes = 16;
inline constexpr size_t kAlign = 64;

// Weights and key/value tiles come in panels: [k / 2][columns][2] bf16, so that a vector of 32-bit
// lanes holds, for each of its columns, two neighbours along k. A panel has 2 * lanes columns; an
// odd k and missing columns are filled with zeros. Sums run over k in ascending order in one
// accumulator per output, whatever else is computed beside it: that is the row rule.
struct LinearTile {
  const bf16* in;  // [rows, k], in_stride
  size_t in_stride;
  uint32_t rows;
  uint32_t k;
  const uint32_t* panels;
  uint32_t num_panels;
  uint32_t columns;  // outputs from the first panel's first column to the end of the row
  bool stream;       // weights come from memory: fetch the next panel while this one is used
};

struct LinearOut {
  float* out;  // [rows, columns], stride
  size_t stride;
  bool accumulate;
};

// A gated panel is [k / 2][lanes of gate | lanes of up][2]; `columns` counts outputs.
struct GatedOut {
  bf16* out;
  size_t stride;
};

struct RopeRow {
  const float* qkv;  // [q heads | k heads | v heads][head_dim]
  const float* cos;  // [head_dim / 2] of the row's position
  const float* sin;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_dim;
  bf16* q;     // [heads][head_dim]
  bf16* keys;  // of the token in its page: head h is at keys + h * head_stride
  bf16* values;
  size_t head_stride;
  float* score;  // [kv_heads], or null
};

// One tile of keys or values, brought into panels. `next` is the tile wanted after it, which is
// fetched meanwhile (pages are too short and too scattered for the hardware to guess), or null.
struct PackTile {
  const bf16* const* rows;  // [kKeyTile] pointers to [head_dim]
  const bf16* const* next;
  uint32_t head_dim;
  uint32_t* out;
};

// Query rows of one head, or of the heads of one KV head, against one tile of keys: a step of the
// online softmax (Dao et al., FlashAttention, arXiv 2205.14135; Milakov and Gimelshein, arXiv
// 1805.02867) in base 2.
struct FlashTile {
  const bf16* q;  // [rows, head_dim], q_stride
  size_t q_stride;
  uint32_t rows;
  uint32_t head_dim;
  const uint32_t* keys;     // kKeyTile columns in panels over head_dim
  const uint32_t* values;   // head_dim columns in panels over kKeyTile
  const int32_t* valid;     // [rows] keys of the tile the row sees: <= 0 none, >= kKeyTile all
  float scale;              // log2(e) / sqrt(head_dim)
  const bf16* const* next;  // [kKeyTile] values of the tile wanted after this one, or null
  float* max;               // [rows]; starts at -infinity
  float* sum;               // [rows][lanes]; starts at 0
  float* acc;               // [rows, AccStride(head_dim)]; starts at 0
};

// Decode rows are attended in parts of this many slots, counted from slot 0 of the sequence.
inline constexpr uint32_t kDecodePartTokens = 256;
inline constexpr uint32_t kDecodeHeads = 16;  // query heads of one KV head, at most
inline constexpr uint32_t kFetchBlocks = 8;   // so many blocks ahead are fetched

// The query heads of one KV head of one decode row against a part of its keys and values, which are
// read where they lie in the pages. The softmax state is that of FlashTile, for this part alone.
struct DecodePart {
  const bf16* q;  // [rows, head_dim]
  uint32_t rows;
  uint32_t head_dim;
  uint32_t count;  // keys, 1..kDecodePartTokens
  // [ceil(count / lanes)] blocks of keys, then as many of values, then kFetchBlocks that are wanted
  // next; each [lanes, head_dim] in one page.
  const bf16* const* blocks;
  float scale;  // log2(e) / sqrt(head_dim)
  float* max;   // [rows]
  float* sum;   // [rows][lanes]
  float* acc;   // [rows, head_dim]
};

// Shapes that DecodePart serves; the others go the prompts' way.
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

struct KernelTable {
  const char* name;
  uint32_t lanes;
  uint32_t group_rows;  // rows one pass over a panel serves

  void (*linear)(const LinearTile& tile, const LinearOut& out);
  void (*gated)(const LinearTile& tile, const GatedOut& out);
  void (*embed)(const bf16* in, float* out, size_t n);
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n, bf16* out);
  void (*rope_append)(const RopeRow& row);
  void (*pack_keys)(const PackTile& tile);
  void (*pack_values)(const PackTile& tile);
  void (*flash)(const FlashTile& tile);
  void (*decode)(const DecodePart& part);
  void (*merge)(const FlashMerge& merge);
};

const KernelTable& PortableKernels();
#if defined(__x86_64__)
const KernelTable& Avx2Kernels();
const KernelTable& Avx512Kernels();
const KernelTable& Avx512Bf16Kernels();
#endif

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_KERNELS_H_
