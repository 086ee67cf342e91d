#include "services/model/source/quantized_tensor.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/model/source/stored_bytes.h"
#include "services/model/source/super_blocks.h"

namespace folio::model {
namespace {

using kernels::QuantizedFormat;
using kernels::QuantizedRow;

constexpr size_t kNibbles = kQuantBlock / 2;  // bytes that hold 32 values' nibbles

// Codes of 32 values: low nibbles are the first 16 of them, with a fifth bit each if it is given.
void PutNibbles(const std::byte* in, uint32_t fifth, uint8_t* codes) {
  for (size_t i = 0; i < kNibbles; ++i) {
    codes[i] = static_cast<uint8_t>(LowNibble(in[i]) | (fifth >> i & 1u) << 4);
    codes[i + kNibbles] =
        static_cast<uint8_t>(HighNibble(in[i]) | (fifth >> (i + kNibbles) & 1u) << 4);
  }
}

void PutBytes(const std::byte* in, uint8_t* codes) {
  for (size_t i = 0; i < kQuantBlock; ++i) {
    codes[i] = static_cast<uint8_t>(LoadAs<int8_t>(in + i) + 128);
  }
}

// Q4_K, and Q5_K with `fifth`.
void PutSixBitGroups(const std::byte* in, const std::byte* fifth, const std::byte* nibbles,
                     size_t block, QuantizedRow& out) {
  constexpr size_t kGroups = kSuperBlock / kQuantBlock;
  for (size_t group = 0; group < kGroups; ++group) {
    const auto [scale, offset] = SixBits(in + 4, group);
    out.steps[block * kGroups + group] = static_cast<int8_t>(scale);
    out.offsets[block * kGroups + group] = static_cast<int8_t>(offset);
    const std::byte* pairs = nibbles + group / 2 * kQuantBlock;
    uint8_t* codes = &out.codes[block * kSuperBlock + group * kQuantBlock];
    for (size_t i = 0; i < kQuantBlock; ++i) {
      int q = group % 2 == 0 ? LowNibble(pairs[i]) : HighNibble(pairs[i]);
      if (fifth != nullptr) q |= (std::to_integer<int>(fifth[i]) >> group & 1) << 4;
      codes[i] = static_cast<uint8_t>(q);
    }
  }
}

void PutQ6K(const std::byte* in, size_t block, QuantizedRow& out) {
  const std::byte* scales = in + kSuperBlock / 2 + kSuperBlock / 4;
  constexpr size_t kGroups = 16;
  for (size_t group = 0; group < kGroups; ++group) {
    out.steps[block * kGroups + group] = LoadAs<int8_t>(scales + group);
  }
  out.scales[block] = LoadAs<uint16_t>(scales + kGroups);
  for (size_t i = 0; i < kSuperBlock; ++i) {
    out.codes[block * kSuperBlock + i] = static_cast<uint8_t>(CodeOfQ6K(in, i));
  }
}

void PutIq4Xs(const std::byte* in, size_t block, QuantizedRow& out) {
  constexpr size_t kGroups = kSuperBlock / kQuantBlock;
  for (size_t group = 0; group < kGroups; ++group) {
    out.steps[block * kGroups + group] = static_cast<int8_t>(StepOfIq4Xs(in, group));
    PutNibbles(in + 8 + group * kNibbles, 0, &out.codes[block * kSuperBlock + group * kQuantBlock]);
  }
}

// One block, except for the scale in front, which all types but Q6_K have.
void PutBlock(StorageType type, const std::byte* in, size_t block, QuantizedRow& out) {
  uint8_t* codes = &out.codes[block * BlockValues(type)];
  if (type != StorageType::kQ6K) out.scales[block] = LoadAs<uint16_t>(in);
  switch (type) {
    case StorageType::kQ8_0:
      return PutBytes(in + 2, codes);
    case StorageType::kQ4_0:
    case StorageType::kIq4Nl:
      return PutNibbles(in + 2, 0, codes);
    case StorageType::kQ5_0:
      return PutNibbles(in + 6, LoadAs<uint32_t>(in + 2), codes);
    case StorageType::kQ4_1:
    case StorageType::kQ5_1:
      // The file adds m, and formats subtract their offset.
      out.offset_scales[block] = LoadAs<uint16_t>(in + 2) ^ 0x8000u;
      if (type == StorageType::kQ4_1) return PutNibbles(in + 4, 0, codes);
      return PutNibbles(in + 8, LoadAs<uint32_t>(in + 4), codes);
    case StorageType::kQ4K:
    case StorageType::kQ5K:
      out.offset_scales[block] = LoadAs<uint16_t>(in + 2);
      if (type == StorageType::kQ4K) return PutSixBitGroups(in, nullptr, in + 16, block, out);
      return PutSixBitGroups(in, in + 16, in + 48, block, out);
    case StorageType::kQ6K:
      return PutQ6K(in, block, out);
    case StorageType::kIq4Xs:
      return PutIq4Xs(in, block, out);
    default:
      FOLIO_CHECK(false);
  }
}

bool IsFinite(uint16_t half) { return (half & 0x7c00u) != 0x7c00u; }

class StoredMatrix final : public kernels::QuantizedMatrix {
 public:
  StoredMatrix(const StoredTensor& tensor, const RowOrder& order, const QuantizedFormat& format)
      : format_(format),
        type_(tensor.type),
        order_(order),
        bytes_(tensor.bytes),
        n_(static_cast<uint32_t>(tensor.shape[0])),
        k_(static_cast<uint32_t>(tensor.shape[1])) {}

  const QuantizedFormat& format() const override { return format_; }
  uint32_t n() const override { return n_; }
  uint32_t k() const override { return k_; }

  void Read(uint32_t row, QuantizedRow& out) const override {
    const size_t blocks = k_ / BlockValues(type_);
    const size_t size = BlockBytes(type_);
    const std::byte* in = bytes_.data() + order_.Stored(row) * blocks * size;
    for (size_t block = 0; block < blocks; ++block) PutBlock(type_, in + block * size, block, out);
  }

  bool scales_are_finite() const {
    const size_t size = BlockBytes(type_);
    const size_t scale = type_ == StorageType::kQ6K ? size - sizeof(uint16_t) : 0;
    for (const std::byte* in = bytes_.data(); in != bytes_.data() + bytes_.size(); in += size) {
      if (!IsFinite(LoadAs<uint16_t>(in + scale))) return false;
      if (format_.offsets && !IsFinite(LoadAs<uint16_t>(in + 2))) return false;
    }
    return true;
  }

 private:
  QuantizedFormat format_;
  StorageType type_;
  RowOrder order_;
  absl::Span<const std::byte> bytes_;
  uint32_t n_, k_;
};

}  // namespace

std::optional<QuantizedFormat> QuantizedFormatOf(StorageType type) {
  // In the order of kernels::kQuantizedFormats.
  constexpr StorageType kTypes[] = {StorageType::kQ4_0, StorageType::kQ4_1, StorageType::kQ5_0,
                                    StorageType::kQ5_1, StorageType::kQ8_0, StorageType::kIq4Nl,
                                    StorageType::kQ4K,  StorageType::kQ5K,  StorageType::kQ6K,
                                    StorageType::kIq4Xs};
  static_assert(std::size(kTypes) == std::size(kernels::kQuantizedFormats));
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i] == type) return kernels::kQuantizedFormats[i];
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(const StoredTensor& tensor,
                                                                        const RowOrder& order) {
  FOLIO_CHECK(tensor.shape.size() == 2);
  if (BlockValues(tensor.type) == 1) return nullptr;
  const std::optional<QuantizedFormat> format = QuantizedFormatOf(tensor.type);
  if (!format.has_value()) {
    return absl::UnimplementedError(absl::StrCat("no kernel computes with ", tensor.type_name));
  }
  auto matrix = std::make_unique<StoredMatrix>(tensor, order, *format);
  // The message names the place, which reading as bf16 finds.
  if (!matrix->scales_are_finite()) return ReadBf16(tensor, order).status();
  return matrix;
}

}  // namespace folio::model
