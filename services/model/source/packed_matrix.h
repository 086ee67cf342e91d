// PackedMatrix is a matrix whose numbers are made of several tensors of a file, such as codes of 4
// bits, zero points and scales. Implementations are immutable and thread-safe, and borrow the bytes
// from the mapped file.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_PACKED_MATRIX_H_
#define FOLIO_SERVICES_MODEL_SOURCE_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "services/model/source/block_formats.h"

namespace folio::model {

using StoredBytes = absl::Span<const std::byte>;

class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  // The numbers of a row in float32, `out` [columns]. They are NaN or infinite where a scale is.
  virtual void Row(size_t row, float* out) const = 0;
  // All bytes that the numbers depend on.
  virtual std::vector<StoredBytes> Parts() const = 0;
};

inline constexpr size_t kCodesInWord = 8;

// Codes of 4 bits in 32-bit words, 8 neighbours of one dimension in each word.
struct Nibbles {
  StoredBytes words;
  bool neighbours_are_rows = false;  // or else columns
  // From a word to the next one, in words: to the next 8 neighbours in the dimension that is
  // packed, and to the next one in the other.
  size_t row_step = 0;
  size_t column_step = 0;
  // The place in the word, from the lowest bits, of each of 8 neighbours.
  const int* places = kInOrder;
  uint32_t added = 0;  // to each word, before its codes are taken

  static constexpr int kInOrder[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  static constexpr int kAwqOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};

  // The codes of a row.
  void Row(size_t row, size_t columns, int* out) const;
};

// A matrix of 4 bits: a number is (code - zero) * scale, with the zero and the scale of its group
// of columns, in float32.
struct PackedInt4 {
  size_t columns = 0;
  size_t groups = 0;
  Nibbles codes;       // [rows, columns]
  Nibbles zeros = {};  // [rows, groups], or no words for a zero of 8
  StoredBytes scales;  // [groups, rows] if `scales_by_group`, or else [rows, groups]
  StorageType scale_type = StorageType::kF16;
  bool scales_by_group = true;
  size_t rows = 0;
  StoredBytes group_of;  // int32 [columns], or empty for groups one after another
};

std::shared_ptr<const PackedMatrix> MakePacked(const PackedInt4& parts);

// A matrix in E4M3 with a scale for each block: a number is code * scale, in float32.
struct BlockedE4M3 {
  StoredBytes codes;   // [rows, columns]
  StoredBytes scales;  // [ceil(rows / block_rows), ceil(columns / block_columns)]
  StorageType scale_type = StorageType::kF32;
  size_t columns = 0;
  size_t block_rows = 0;
  size_t block_columns = 0;
};

std::shared_ptr<const PackedMatrix> MakePacked(const BlockedE4M3& parts);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_PACKED_MATRIX_H_
