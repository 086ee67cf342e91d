#include "services/model/source/block_formats.h"

#include <bit>
#include <cstring>

#include "kernels/e4m3.h"
#include "services/base/check.h"
#include "services/model/source/stored_bytes.h"
#include "services/model/source/super_blocks.h"

namespace folio::model {
namespace {

constexpr size_t kNibbles = kQuantBlock / 2;  // bytes that hold a block's nibbles

struct BlockSize {
  StorageType type;
  size_t values;
  size_t bytes;
};

constexpr BlockSize kSizes[] = {
    {StorageType::kF32, 1, 4},
    {StorageType::kF16, 1, 2},
    {StorageType::kBF16, 1, 2},
    {StorageType::kE4M3, 1, 1},
    {StorageType::kQ8_0, kQuantBlock, 2 + kQuantBlock},
    {StorageType::kQ4_0, kQuantBlock, 2 + kNibbles},
    {StorageType::kQ4_1, kQuantBlock, 4 + kNibbles},
    {StorageType::kQ5_0, kQuantBlock, 2 + 4 + kNibbles},
    {StorageType::kQ5_1, kQuantBlock, 4 + 4 + kNibbles},
    {StorageType::kIq4Nl, kQuantBlock, 2 + kNibbles},
    {StorageType::kQ2K, kSuperBlock, 84},
    {StorageType::kQ3K, kSuperBlock, 110},
    {StorageType::kQ4K, kSuperBlock, 144},
    {StorageType::kQ5K, kSuperBlock, 176},
    {StorageType::kQ6K, kSuperBlock, 210},
    {StorageType::kIq4Xs, kSuperBlock, 136},
};

const BlockSize& SizeOf(StorageType type) {
  for (const BlockSize& size : kSizes) {
    if (size.type == type) return size;
  }
  FOLIO_CHECK(false);
  return kSizes[0];
}

void DequantizeBytes(const std::byte* in, float scale, float* out) {
  for (size_t i = 0; i < kQuantBlock; ++i) {
    out[i] = scale * static_cast<float>(LoadAs<int8_t>(in + i));
  }
}

// The nibbles of one block, low ones first: out[i] = scale * (q - zero) + offset.
void DequantizeNibbles(const std::byte* in, float scale, int zero, float offset, float* out) {
  for (size_t i = 0; i < kNibbles; ++i) {
    out[i] = scale * static_cast<float>(LowNibble(in[i]) - zero) + offset;
    out[i + kNibbles] = scale * static_cast<float>(HighNibble(in[i]) - zero) + offset;
  }
}

// The same with a fifth bit for each value: bit i of the four bytes in front is value i's.
void DequantizeFiveBits(const std::byte* in, float scale, int zero, float offset, float* out) {
  const auto fifth = LoadAs<uint32_t>(in);
  const std::byte* nibbles = in + sizeof fifth;
  for (size_t i = 0; i < kQuantBlock; ++i) {
    const int low = i < kNibbles ? LowNibble(nibbles[i]) : HighNibble(nibbles[i - kNibbles]);
    const int q = low | static_cast<int>((fifth >> i) & 1u) << 4;
    out[i] = scale * static_cast<float>(q - zero) + offset;
  }
}

// One block of a quantised format.
void DequantizeBlock(StorageType type, const std::byte* in, float* out) {
  switch (type) {
    case StorageType::kQ8_0:
      return DequantizeBytes(in + 2, LoadHalf(in), out);
    case StorageType::kQ4_0:
      return DequantizeNibbles(in + 2, LoadHalf(in), 8, 0, out);
    case StorageType::kQ4_1:
      return DequantizeNibbles(in + 4, LoadHalf(in), 0, LoadHalf(in + 2), out);
    case StorageType::kQ5_0:
      return DequantizeFiveBits(in + 2, LoadHalf(in), 16, 0, out);
    case StorageType::kQ5_1:
      return DequantizeFiveBits(in + 4, LoadHalf(in), 0, LoadHalf(in + 2), out);
    case StorageType::kIq4Nl:
      return DequantizeUnevenSteps(in + 2, LoadHalf(in), out);
    case StorageType::kQ2K:
      return DequantizeQ2K(in, out);
    case StorageType::kQ3K:
      return DequantizeQ3K(in, out);
    case StorageType::kQ4K:
      return DequantizeQ4K(in, out);
    case StorageType::kQ5K:
      return DequantizeQ5K(in, out);
    case StorageType::kQ6K:
      return DequantizeQ6K(in, out);
    case StorageType::kIq4Xs:
      return DequantizeIq4Xs(in, out);
    default:
      FOLIO_CHECK(false);
  }
}

}  // namespace

size_t BlockValues(StorageType type) { return SizeOf(type).values; }

size_t BlockBytes(StorageType type) { return SizeOf(type).bytes; }

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
  const BlockSize& block = SizeOf(type);
  FOLIO_CHECK(count % block.values == 0);
  switch (type) {
    case StorageType::kF32:
      std::memcpy(out, in, count * sizeof(float));
      return;
    case StorageType::kF16:
      for (size_t i = 0; i < count; ++i) out[i] = LoadHalf(in + 2 * i);
      return;
    case StorageType::kBF16:
      for (size_t i = 0; i < count; ++i) {
        out[i] = std::bit_cast<float>(uint32_t{LoadAs<uint16_t>(in + 2 * i)} << 16);
      }
      return;
    case StorageType::kE4M3:
      for (size_t i = 0; i < count; ++i) out[i] = LoadAs<kernels::e4m3>(in + i).ToFloat();
      return;
    default:
      for (size_t done = 0; done < count; done += block.values, in += block.bytes) {
        DequantizeBlock(type, in, out + done);
      }
  }
}

}  // namespace folio::model
