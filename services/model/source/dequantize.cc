#include "services/model/source/dequantize.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/base/check.h"

static_assert(std::endian::native == std::endian::little, "model files are little-endian");

namespace folio::model {
namespace {

template <typename T>
T Load(const std::byte* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

float LoadHalf(const std::byte* in) { return HalfToFloat(Load<uint16_t>(in)); }

// The nibbles of one block, low ones first: out[i] = scale * (q - zero) + offset.
void DequantizeNibbles(const std::byte* in, float scale, int zero, float offset, float* out) {
  constexpr size_t kHalf = kQuantBlock / 2;
  for (size_t i = 0; i < kHalf; ++i) {
    const int pair = std::to_integer<int>(in[i]);
    out[i] = scale * static_cast<float>((pair & 0xf) - zero) + offset;
    out[i + kHalf] = scale * static_cast<float>((pair >> 4) - zero) + offset;
  }
}

absl::Status NotFinite(const StoredTensor& tensor, size_t row, size_t column) {
  const std::string place = tensor.shape.size() == 1
                                ? absl::StrCat("at ", column)
                                : absl::StrCat("at row ", row, ", column ", column);
  const bool block = BlockValues(tensor.type) > 1;
  return absl::DataLossError(
      absl::StrCat(tensor.file, ": tensor ", tensor.name, ": ",
                   block ? "the scale of a block is NaN, infinite or out of range "
                         : "a value is NaN, infinite or out of range ",
                   place));
}

bool IsFinite(kernels::bf16 value) { return (value.bits & 0x7f80u) != 0x7f80u; }

}  // namespace

size_t BlockValues(StorageType type) {
  switch (type) {
    case StorageType::kF32:
    case StorageType::kF16:
    case StorageType::kBF16:
    case StorageType::kE4M3:
      return 1;
    case StorageType::kQ8_0:
    case StorageType::kQ4_0:
    case StorageType::kQ4_1:
      return kQuantBlock;
    case StorageType::kOther:
      break;
  }
  FOLIO_CHECK(type != StorageType::kOther);
  return 0;
}

size_t BlockBytes(StorageType type) {
  switch (type) {
    case StorageType::kF32:
      return 4;
    case StorageType::kF16:
    case StorageType::kBF16:
      return 2;
    case StorageType::kE4M3:
      return 1;
    case StorageType::kQ8_0:
      return 2 + kQuantBlock;
    case StorageType::kQ4_0:
      return 2 + kQuantBlock / 2;
    case StorageType::kQ4_1:
      return 4 + kQuantBlock / 2;
    case StorageType::kOther:
      break;
  }
  FOLIO_CHECK(type != StorageType::kOther);
  return 0;
}

std::string ShapeText(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

void DequantizeRow(StorageType type, const std::byte* in, size_t count, float* out) {
  FOLIO_CHECK(type != StorageType::kOther && count % BlockValues(type) == 0);
  switch (type) {
    case StorageType::kF32:
      std::memcpy(out, in, count * sizeof(float));
      return;
    case StorageType::kF16:
      for (size_t i = 0; i < count; ++i) out[i] = LoadHalf(in + 2 * i);
      return;
    case StorageType::kBF16:
      for (size_t i = 0; i < count; ++i) {
        out[i] = std::bit_cast<float>(uint32_t{Load<uint16_t>(in + 2 * i)} << 16);
      }
      return;
    case StorageType::kE4M3:
      for (size_t i = 0; i < count; ++i) out[i] = Load<kernels::e4m3>(in + i).ToFloat();
      return;
    case StorageType::kQ8_0:
      for (size_t b = 0; b < count / kQuantBlock; ++b, in += BlockBytes(type)) {
        const float scale = LoadHalf(in);
        for (size_t i = 0; i < kQuantBlock; ++i) {
          *out++ = scale * static_cast<float>(std::to_integer<int8_t>(in[2 + i]));
        }
      }
      return;
    case StorageType::kQ4_0:
      for (size_t b = 0; b < count / kQuantBlock; ++b, in += BlockBytes(type)) {
        DequantizeNibbles(in + 2, LoadHalf(in), 8, 0, out + b * kQuantBlock);
      }
      return;
    case StorageType::kQ4_1:
      for (size_t b = 0; b < count / kQuantBlock; ++b, in += BlockBytes(type)) {
        DequantizeNibbles(in + 4, LoadHalf(in), 0, LoadHalf(in + 2), out + b * kQuantBlock);
      }
      return;
    case StorageType::kOther:
      return;
  }
}

StoredTensor SliceRows(const StoredTensor& tensor, size_t first, size_t count) {
  const size_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  const auto bytes = [&](size_t rows) {
    FOLIO_CHECK(rows * columns % BlockValues(tensor.type) == 0);
    return rows * columns / BlockValues(tensor.type) * BlockBytes(tensor.type);
  };
  StoredTensor part = tensor;
  part.shape[0] = count;
  part.bytes = tensor.bytes.subspan(bytes(first), bytes(count));
  if (!tensor.scales.empty()) {
    part.scales.assign(tensor.scales.begin() + static_cast<ptrdiff_t>(first),
                       tensor.scales.begin() + static_cast<ptrdiff_t>(first + count));
  }
  return part;
}

size_t InterleavedRow(size_t row, size_t head_dim) {
  const size_t head = row / head_dim;
  const size_t half = row % head_dim / (head_dim / 2);
  const size_t pair = row % (head_dim / 2);
  return head * head_dim + 2 * pair + half;
}

absl::StatusOr<std::vector<kernels::bf16>> ReadBf16(const StoredTensor& tensor,
                                                    size_t interleaved_head_dim) {
  FOLIO_CHECK(tensor.shape.size() == 2);
  const size_t rows = tensor.shape[0];
  const size_t columns = tensor.shape[1];
  const size_t row_bytes = columns / BlockValues(tensor.type) * BlockBytes(tensor.type);
  FOLIO_CHECK(rows * row_bytes == tensor.bytes.size());
  std::vector<kernels::bf16> values(rows * columns);
  std::vector<float> row(columns);
  for (size_t r = 0; r < rows; ++r) {
    const size_t source = interleaved_head_dim == 0 ? r : InterleavedRow(r, interleaved_head_dim);
    DequantizeRow(tensor.type, tensor.bytes.data() + source * row_bytes, columns, row.data());
    if (!tensor.scales.empty()) {
      for (float& value : row) value *= tensor.scales[source];
    }
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

absl::StatusOr<ScaledMatrix> ReadCodes(const StoredTensor& tensor) {
  FOLIO_CHECK(tensor.type == StorageType::kE4M3 && tensor.shape.size() == 2 &&
              tensor.scales.size() == tensor.shape[0]);
  ScaledMatrix matrix;
  matrix.scales = tensor.scales;
  matrix.codes.resize(tensor.bytes.size());
  std::memcpy(matrix.codes.data(), tensor.bytes.data(), tensor.bytes.size());
  for (size_t i = 0; i < matrix.codes.size(); ++i) {
    if ((matrix.codes[i].bits & 0x7fu) != 0x7f) continue;
    return NotFinite(tensor, i / tensor.shape[1], i % tensor.shape[1]);
  }
  return matrix;
}

absl::StatusOr<std::vector<float>> ReadFloats(const StoredTensor& tensor) {
  FOLIO_CHECK(tensor.shape.size() == 1);
  const size_t count = tensor.shape[0];
  std::vector<float> values(count);
  DequantizeRow(tensor.type, tensor.bytes.data(), count, values.data());
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return NotFinite(tensor, 0, i);
  }
  return values;
}

}  // namespace folio::model
