// These are the single-threaded kernels of AmxGemm: products of bf16 matrices in the tiles of Intel
// AMX. A tile has 16 rows of 64 bytes. They may only be called on CPUs for which SelectKernels
// offers avx512_amx.
#ifndef FOLIO_KERNELS_CPU_FAST_AMX_PRODUCTS_H_
#define FOLIO_KERNELS_CPU_FAST_AMX_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Rows of the input come in pairs of tiles for each step along k: [k / 32][2][16][32] for 32 rows.
inline constexpr uint32_t kRowPair = 32;
inline constexpr uint32_t kStepK = 32;

// Brings up to 32 rows into this order, and fills up with rows of zeros. k is a multiple of 32.
void PackRowPair(const bf16* in, size_t stride, uint32_t rows, uint32_t k, bf16* out);

// A pair of tiles of rows times neighbouring panels (kernels.h) of 32 columns.
struct TileProduct {
  const bf16* rows;       // [k / 32][2][16][32]
  const bf16* next_rows;  // of the product after this one, which are fetched meanwhile, or null
  bool one_tile;          // the second tile of each pair has zeros alone, and no output
  uint32_t k;
  const uint32_t* panels;
  size_t panel_stride;  // words
  uint32_t num_panels;
  // Panels that are wanted later, or null, at the same stride. Each step along k, which is 32 cache
  // lines long, fetches so many lines of such a panel.
  const uint32_t* later_panels;
  uint32_t later_lines;
  float* out;  // [16 or 32][32 * num_panels], stride
  size_t out_stride;
  bool accumulate;
};

// out = rows * panels^T, or out += rows * panels^T. Each output is summed up over ascending k, 32
// values at a time, whatever the other operands are.
void MultiplyTiles(const TileProduct& product);

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_AMX_PRODUCTS_H_
