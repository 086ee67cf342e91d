// ReadBf16 and its siblings read a tensor of a file as the numbers that kernels take. Its functions
// are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_DEQUANTIZE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/e4m3.h"
#include "kernels/views.h"
#include "services/model/source/block_formats.h"

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
};

// Rows [first, first + count) of a tensor of one or two dimensions, which holds that many; all of
// it is given back as it is. A part of a vector does not begin or end within a block (CHECKed).
StoredTensor SliceRows(const StoredTensor& tensor, size_t first, size_t count);

// "[300, 64]"
std::string ShapeText(absl::Span<const uint64_t> shape);

// The row of the stored tensor that holds row `row` in Hugging Face's order, when each head's rows
// were stored interleaved for rotary embedding: there (head, pair, half), here (head, half, pair).
size_t InterleavedRow(size_t row, size_t head_dim);

// A matrix rounded to bf16, row-major. If `interleaved_head_dim` is 0 rows stay as stored, else
// they are brought into Hugging Face's order. DATA_LOSS names the tensor and place of a value that
// is not finite, or too large for bf16. The caller has checked shape, type and size.
absl::StatusOr<std::vector<kernels::bf16>> ReadBf16(const StoredTensor& tensor,
                                                    size_t interleaved_head_dim);

// The codes of a matrix in kE4M3, as stored, and its scales. DATA_LOSS as above.
absl::StatusOr<ScaledMatrix> ReadCodes(const StoredTensor& tensor);

// A vector in float32, as stored. DATA_LOSS as above.
absl::StatusOr<std::vector<float>> ReadFloats(const StoredTensor& tensor);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_DEQUANTIZE_H_
