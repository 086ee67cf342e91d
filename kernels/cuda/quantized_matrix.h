// This header has the order in which a GPU holds quantised values. A matrix of n rows and k columns
// takes about the memory of its file: rows are filled up to multiples of 16, and columns to
// multiples of 64, with zeros.
//
// A tile is 16 rows, and a cell is 64 columns of a tile. Tiles follow each other, and so do the
// cells of a tile. A warp reads a cell in the order in which its lanes give the values to tensor
// cores (device/tensor_core.cuh). With g = lane / 4 and t = lane % 4, a lane has the rows g and g +
// 8, and of each 16 columns s of the cell the four that begin at 16 s + 4 t. These eight codes are
// named by pair j: rows g, g + 8, g and g + 8, and columns 0, 0, 2 and 2, each with its right
// neighbour. There are four areas, one behind the other:
//   codes: 16 bytes of each lane. The 32-bit word s has the lower four bits of pair j at the bits
//     4 j and 4 j + 16. Formats of 8 bits have two such rounds of lanes, of which round s / 2 has
//     in word 2 (s % 2) + j / 2 the pair j at the bits 8 (j % 2) and 8 (j % 2) + 16.
//   planes: the fifth bits, 4 bytes of each lane, at the bits 4 s + j and 4 s + j + 16. Formats of
//     6 bits have two rounds, of which round s / 2 has two bits of each code, at twice the place
//     that 4 (s % 2) + j has.
//   numbers: the words of each g, which are the half scales of the two groups of row g and those of
//     row g + 8, and then the offsets' scales likewise. Formats with steps have instead a word of
//     steps, one byte of each group, of row g and then of row g + 8, and a word of offsets
//     likewise. With groups of 16 values it is a word of steps for either row.
//   supers, for formats with steps: for 256 columns of a tile, the words of each g, which are the
//     scales of the rows g and g + 8, and the offsets' scales.
#ifndef FOLIO_KERNELS_CUDA_QUANTIZED_MATRIX_H_
#define FOLIO_KERNELS_CUDA_QUANTIZED_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/quantized.h"
#include "kernels/quantized_format.h"

namespace folio::kernels::cuda {

inline constexpr uint32_t kQuantizedTile = 16;  // rows
inline constexpr uint32_t kQuantizedCell = 64;  // columns
inline constexpr size_t kQuantizedMultiple = 512;

// The sizes of a part of `rows` rows. Offsets of areas are in bytes, and codes begin at 0.
struct QuantizedAreas {
  // `format` is one of kQuantizedFormats, and `cols` a multiple of its `super`.
  QuantizedAreas(const QuantizedFormat& format, uint32_t rows, uint32_t cols);

  uint32_t tiles, cells;               // cells of a tile
  uint32_t code_rounds, plane_rounds;  // of lanes, for a cell
  uint32_t number_words, super_words;  // of each g
  size_t planes = 0, numbers = 0, supers = 0;
  size_t bytes = 0;  // of all, a multiple of kQuantizedMultiple
};

// Writes matrices of one format and one k, one below the other. `out` has the bytes of their areas.
// Any thread may call it.
void PackQuantized(absl::Span<const QuantizedMatrix* const> matrices, absl::Span<std::byte> out);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_QUANTIZED_MATRIX_H_
