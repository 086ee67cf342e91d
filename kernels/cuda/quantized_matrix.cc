#include "kernels/cuda/quantized_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kHalf = kQuantizedTile / 2;  // rows from g to g + 8
constexpr uint32_t kSixteens = kQuantizedCell / 16;
constexpr uint32_t kWords = 4;  // that a lane reads at once
constexpr uint32_t kSuperCells = 256 / kQuantizedCell;

// The rows of a tile. Those beyond the last one are zeros.
using TileRows = std::vector<QuantizedRow>;

// Writes one tile after the other.
class Packer {
 public:
  Packer(const QuantizedFormat& format, const QuantizedAreas& areas, absl::Span<std::byte> out)
      : format_(format), areas_(areas), out_(out) {}

  void Put(const TileRows& rows, uint32_t tile, uint32_t cols) {
    for (uint32_t cell = 0; cell < areas_.cells; ++cell) {
      const size_t at = size_t{tile} * areas_.cells + cell;
      // Columns are whole blocks of 32.
      const uint32_t sixteens = std::min(kSixteens, (cols - cell * kQuantizedCell) / 16);
      for (uint32_t s = 0; s < sixteens; ++s) PutCodes(rows, at, cell, s);
      for (uint32_t g = 0; g < kHalf; ++g) PutNumbers(rows, at, cell, g);
    }
    for (uint32_t super = 0; format_.steps && super < areas_.cells / kSuperCells; ++super) {
      PutSupers(rows, size_t{tile} * (areas_.cells / kSuperCells) + super, super);
    }
  }

 private:
  // Words were zeros.
  void PutWord(size_t area, size_t word, uint32_t value) {
    std::memcpy(out_.data() + area + word * sizeof(value), &value, sizeof(value));
  }
  void AddToWord(size_t area, size_t word, uint32_t value) {
    uint32_t before = 0;
    std::memcpy(&before, out_.data() + area + word * sizeof(value), sizeof(value));
    PutWord(area, word, before | value);
  }

  void PutCodes(const TileRows& rows, size_t at, uint32_t cell, uint32_t s) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t column = cell * kQuantizedCell + 16 * s + lane % 4 * 4;
      const uint8_t* const codes[] = {&rows[lane / 4].codes[column],
                                      &rows[lane / 4 + kHalf].codes[column]};
      uint32_t words[2] = {};  // of 8 bits; else the first has the lower four
      uint32_t upper = 0;      // the bits above
      for (uint32_t j = 0; j < 4; ++j) {
        const uint32_t first = codes[j % 2][j / 2 * 2];
        const uint32_t second = codes[j % 2][j / 2 * 2 + 1];
        if (format_.bits == 8) {
          words[j / 2] |= (first | second << 16) << 8 * (j % 2);
          continue;
        }
        words[0] |= ((first & 15u) | (second & 15u) << 16) << 4 * j;
        const uint32_t place = areas_.plane_rounds == 2 ? 2 * (4 * (s % 2) + j) : 4 * s + j;
        upper |= (first >> 4 | second >> 4 << 16) << place;
      }
      PutLane(at, lane, s, words, upper);
    }
  }

  void PutLane(size_t at, uint32_t lane, uint32_t s, const uint32_t (&words)[2], uint32_t upper) {
    if (format_.bits == 8) {
      const size_t round = (at * 2 + s / 2) * kLanes + lane;
      PutWord(0, round * kWords + s % 2 * 2, words[0]);
      PutWord(0, round * kWords + s % 2 * 2 + 1, words[1]);
      return;
    }
    PutWord(0, (at * kLanes + lane) * kWords + s, words[0]);
    if (areas_.plane_rounds == 0) return;
    const size_t round = at * areas_.plane_rounds + (areas_.plane_rounds == 2 ? s / 2 : 0);
    AddToWord(areas_.planes, round * kLanes + lane, upper);
  }

  void PutNumbers(const TileRows& rows, size_t at, uint32_t cell, uint32_t g) {
    const size_t first = (at * kHalf + g) * areas_.number_words;
    const uint32_t groups = kQuantizedCell / format_.group;
    for (uint32_t half = 0; half < 2; ++half) {
      const QuantizedRow& row = rows[g + half * kHalf];
      for (uint32_t i = 0; i < groups; ++i) {
        const size_t group = cell * groups + i;
        if (!format_.steps) {
          // The last cell may have one group.
          if (group >= row.scales.size()) continue;
          AddToWord(areas_.numbers, first + half, uint32_t{row.scales[group]} << 16 * i);
          if (!format_.offsets) continue;
          AddToWord(areas_.numbers, first + 2 + half, uint32_t{row.offset_scales[group]} << 16 * i);
          continue;
        }
        const uint32_t byte = groups == 4 ? i : 2 * half + i;
        const auto put = [&](size_t word, int8_t value) {
          AddToWord(areas_.numbers, word, uint32_t{static_cast<uint8_t>(value)} << 8 * byte);
        };
        put(first + (groups == 4 ? half : 0), row.steps[group]);
        if (format_.offsets) put(first + 1, row.offsets[group]);
      }
    }
  }

  void PutSupers(const TileRows& rows, size_t at, uint32_t super) {
    for (uint32_t g = 0; g < kHalf; ++g) {
      const size_t first = (at * kHalf + g) * areas_.super_words;
      const auto pair = [&](std::vector<uint16_t> QuantizedRow::*scales) {
        return (rows[g].*scales)[super] | uint32_t{(rows[g + kHalf].*scales)[super]} << 16;
      };
      PutWord(areas_.supers, first, pair(&QuantizedRow::scales));
      if (format_.offsets) PutWord(areas_.supers, first + 1, pair(&QuantizedRow::offset_scales));
    }
  }

  const QuantizedFormat& format_;
  const QuantizedAreas& areas_;
  const absl::Span<std::byte> out_;
};

}  // namespace

QuantizedAreas::QuantizedAreas(const QuantizedFormat& format, uint32_t rows, uint32_t cols)
    : tiles((rows + kQuantizedTile - 1) / kQuantizedTile),
      cells((cols + kQuantizedCell - 1) / kQuantizedCell),
      code_rounds(format.bits == 8 ? 2 : 1),
      plane_rounds(format.bits == 5   ? 1
                   : format.bits == 6 ? 2
                                      : 0),
      number_words(format.steps && format.group == 32 && !format.offsets ? 1
                   : !format.steps && format.offsets                     ? 4
                                                                         : 2),
      super_words(!format.steps    ? 0
                  : format.offsets ? 2
                                   : 1) {
  const size_t all = size_t{tiles} * cells;
  planes = all * code_rounds * kLanes * kWords * sizeof(uint32_t);
  numbers = planes + all * plane_rounds * kLanes * sizeof(uint32_t);
  supers = numbers + all * kHalf * number_words * sizeof(uint32_t);
  bytes = supers + all / kSuperCells * kHalf * super_words * sizeof(uint32_t);
  bytes = (bytes + kQuantizedMultiple - 1) / kQuantizedMultiple * kQuantizedMultiple;
}

void PackQuantized(absl::Span<const QuantizedMatrix* const> matrices, absl::Span<std::byte> out) {
  const QuantizedFormat format = matrices.front()->format();
  const uint32_t cols = matrices.front()->k();
  uint32_t rows = 0;
  for (const QuantizedMatrix* matrix : matrices) {
    rows += matrix->n();
  }
  const QuantizedAreas areas(format, rows, cols);
  std::fill(out.begin(), out.end(), std::byte{0});
  Packer packer(format, areas, out);
  TileRows held(kQuantizedTile, QuantizedRow(format, cols));
  uint32_t row = 0;
  for (const QuantizedMatrix* matrix : matrices) {
    for (uint32_t i = 0; i < matrix->n(); ++i, ++row) {
      matrix->Read(i, held[row % kQuantizedTile]);
      if (row % kQuantizedTile + 1 == kQuantizedTile) packer.Put(held, row / kQuantizedTile, cols);
    }
  }
  if (row % kQuantizedTile == 0) return;
  for (uint32_t i = row % kQuantizedTile; i < kQuantizedTile; ++i) {
    held[i] = QuantizedRow(format, cols);
  }
  packer.Put(held, row / kQuantizedTile, cols);
}

}  // namespace folio::kernels::cuda
