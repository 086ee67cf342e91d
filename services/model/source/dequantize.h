// ReadBf16 and its siblings read a tensor of a file as the numbers that kernels take. Its functions
// are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_DEQUANTIZE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/e4m3.h"
#include "kernels/views.h"
#include "services/model/source/block_formats.h"
#include "services/model/source/packed_matrix.h"

namespace folio::model {

// A row-major matrix in E4M3. A number is its code times the scale of its row.
struct ScaledMatrix {
  std::vector<kernels::e4m3> codes;
  std::vector<float> scales;  // [rows]
};

// A tensor in a mapped file. Borrows `bytes` from the mapping.
struct StoredTensor {
  std::string file;
  std::string name;
  StorageType type = StorageType::kOther;
  std::string type_name;        // as the container calls it
  std::vector<uint64_t> shape;  // row-major, outermost first
  absl::Span<const std::byte> bytes;
  std::vector<float> scales = {};  // of kE4M3 alone: one for each row
  // kPacked alone has these, and no `bytes`: the numbers, of which row 0 is this row.
  std::shared_ptr<const PackedMatrix> packed = nullptr;
  size_t first_row = 0;
};

// Rows [first, first + count) of a tensor of one or two dimensions, which holds that many; all of
// it is given back as it is. A part of a vector does not begin or end within a block (CHECKed).
StoredTensor SliceRows(const StoredTensor& tensor, size_t first, size_t count);

// "[300, 64]"
std::string ShapeText(absl::Span<const uint64_t> shape);

// RowOrder says where a file has the rows of a head that kernels want as halves: the first
// elements of all pairs, then the second ones. Files have pairs side by side, or the halves of the
// rotated rows and behind them the rows that are not rotated. Kernels turn every pair, so those
// rows become pairs too, with an angle of zero. Queries and keys have one order, which leaves their
// products as they are.
struct RowOrder {
  uint32_t head_dim = 0;  // 0: rows stay as stored
  uint32_t rotary = 0;    // rows of a head that are rotated
  bool pairs = false;     // rotated rows lie in pairs

  bool as_stored() const { return head_dim == 0 || (rotary == head_dim && !pairs); }
  // The row of the file for a row of kernels.
  size_t Stored(size_t row) const;
};

// A matrix rounded to bf16, row-major. DATA_LOSS names the tensor and place of a value that is not
// finite, or too large for bf16. The caller has checked shape, type and size.
absl::StatusOr<std::vector<kernels::bf16>> ReadBf16(const StoredTensor& tensor,
                                                    const RowOrder& order);

// The codes of a matrix in kE4M3 and its scales. DATA_LOSS as above.
absl::StatusOr<ScaledMatrix> ReadCodes(const StoredTensor& tensor, const RowOrder& order);

// A vector in float32. DATA_LOSS as above.
absl::StatusOr<std::vector<float>> ReadFloats(const StoredTensor& tensor,
                                              const RowOrder& order = {});

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_DEQUANTIZE_H_
