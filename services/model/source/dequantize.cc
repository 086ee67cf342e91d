#include "services/model/source/dequantize.h"

#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/base/check.h"

namespace folio::model {
namespace {

absl::Status NotFinite(const StoredTensor& tensor, size_t row, size_t column) {
  const std::string place = tensor.shape.size() == 1
                                ? absl::StrCat("at ", column)
                                : absl::StrCat("at row ", row, ", column ", column);
  const bool block = tensor.packed != nullptr || BlockValues(tensor.type) > 1;
  return absl::DataLossError(
      absl::StrCat(tensor.file, ": tensor ", tensor.name, ": ",
                   block ? "the scale of a block is NaN, infinite or out of range "
                         : "a value is NaN, infinite or out of range ",
                   place));
}

bool IsFinite(kernels::bf16 value) { return (value.bits & 0x7f80u) != 0x7f80u; }

}  // namespace

std::string ShapeText(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

StoredTensor SliceRows(const StoredTensor& tensor, size_t first, size_t count) {
  const size_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  const auto bytes = [&](size_t rows) {
    FOLIO_CHECK(rows * columns % BlockValues(tensor.type) == 0);
    return rows * columns / BlockValues(tensor.type) * BlockBytes(tensor.type);
  };
  StoredTensor part = tensor;
  part.shape[0] = count;
  part.first_row += first;
  if (tensor.packed != nullptr) return part;
  part.bytes = tensor.bytes.subspan(bytes(first), bytes(count));
  if (!tensor.scales.empty()) {
    part.scales.assign(tensor.scales.begin() + static_cast<ptrdiff_t>(first),
                       tensor.scales.begin() + static_cast<ptrdiff_t>(first + count));
  }
  return part;
}

size_t RowOrder::Stored(size_t row) const {
  if (as_stored()) return row;
  const size_t half = row % head_dim / (head_dim / 2);
  const size_t pair = row % (head_dim / 2);
  const size_t rotated_pairs = rotary / 2;
  const size_t head = row - row % head_dim;
  if (pair < rotated_pairs) return head + (pairs ? 2 * pair + half : half * rotated_pairs + pair);
  // Behind the rotated rows in any order that queries and keys share.
  const size_t rest = head_dim / 2 - rotated_pairs;
  return head + rotary + half * rest + (pair - rotated_pairs);
}

namespace {

// A row in float32, `out` [columns].
void ReadRow(const StoredTensor& tensor, size_t row, float* out) {
  if (tensor.packed != nullptr) return tensor.packed->Row(tensor.first_row + row, out);
  const size_t columns = tensor.shape[1];
  const size_t row_bytes = columns / BlockValues(tensor.type) * BlockBytes(tensor.type);
  DequantizeRow(tensor.type, tensor.bytes.data() + row * row_bytes, columns, out);
  if (tensor.scales.empty()) return;
  for (size_t i = 0; i < columns; ++i) out[i] *= tensor.scales[row];
}

}  // namespace

absl::StatusOr<std::vector<kernels::bf16>> ReadBf16(const StoredTensor& tensor,
                                                    const RowOrder& order) {
  FOLIO_CHECK(tensor.shape.size() == 2);
  const size_t rows = tensor.shape[0];
  const size_t columns = tensor.shape[1];
  FOLIO_CHECK(tensor.packed != nullptr ||
              rows * columns / BlockValues(tensor.type) * BlockBytes(tensor.type) ==
                  tensor.bytes.size());
  std::vector<kernels::bf16> values(rows * columns);
  std::vector<float> row(columns);
  for (size_t r = 0; r < rows; ++r) {
    const size_t source = order.Stored(r);
    ReadRow(tensor, source, row.data());
    kernels::bf16* out = values.data() + r * columns;
    uint32_t bad = 0;
    for (size_t c = 0; c < columns; ++c) {
      out[c] = kernels::bf16::Round(row[c]);
      bad |= static_cast<uint32_t>(!IsFinite(out[c]));
    }
    if (bad != 0) {
      size_t c = 0;
      while (IsFinite(out[c])) ++c;
      return NotFinite(tensor, source, c);
    }
  }
  return values;
}

absl::StatusOr<ScaledMatrix> ReadCodes(const StoredTensor& tensor, const RowOrder& order) {
  FOLIO_CHECK(tensor.type == StorageType::kE4M3 && tensor.shape.size() == 2 &&
              tensor.scales.size() == tensor.shape[0]);
  const size_t columns = tensor.shape[1];
  ScaledMatrix matrix;
  matrix.codes.resize(tensor.bytes.size());
  matrix.scales.resize(tensor.scales.size());
  for (size_t row = 0; row < tensor.shape[0]; ++row) {
    const size_t source = order.Stored(row);
    kernels::e4m3* codes = &matrix.codes[row * columns];
    std::memcpy(codes, &tensor.bytes[source * columns], columns);
    matrix.scales[row] = tensor.scales[source];
    for (size_t i = 0; i < columns; ++i) {
      if ((codes[i].bits & 0x7fu) == 0x7f) return NotFinite(tensor, source, i);
    }
  }
  return matrix;
}

absl::StatusOr<std::vector<float>> ReadFloats(const StoredTensor& tensor, const RowOrder& order) {
  FOLIO_CHECK(tensor.shape.size() == 1);
  const size_t count = tensor.shape[0];
  std::vector<float> stored(count);
  DequantizeRow(tensor.type, tensor.bytes.data(), count, stored.data());
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t source = order.Stored(i);
    values[i] = stored[source];
    if (!std::isfinite(values[i])) return NotFinite(tensor, 0, source);
  }
  return values;
}

}  // namespace folio::model
