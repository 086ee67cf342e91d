#include "services/model/source/super_blocks.h"

#include <array>
#include <cstdint>

#include "services/model/source/stored_bytes.h"

namespace folio::model {
namespace {

constexpr size_t kGroup = 16;  // values that share a scale in Q2_K, Q3_K and Q6_K
constexpr size_t kHalf = kSuperBlock / 2;

int Bits(std::byte from, size_t shift, int mask) {
  return (std::to_integer<int>(from) >> shift) & mask;
}

// The values that the nibbles of IQ4_NL and IQ4_XS stand for.
constexpr std::array<float, 16> kUnevenSteps = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

// Q4_K, and Q5_K with `fifth`, whose byte i has the fifth bits of value i of each group.
void DequantizeSixBitGroups(const std::byte* in, const std::byte* fifth, const std::byte* nibbles,
                            float* out) {
  constexpr size_t kNibbleGroup = 32;
  const float d = LoadHalf(in);
  const float e = LoadHalf(in + 2);
  for (size_t group = 0; group < kSuperBlock / kNibbleGroup; ++group) {
    const auto [scale, offset] = SixBits(in + 4, group);
    const float step = d * static_cast<float>(scale);
    const float zero = e * static_cast<float>(offset);
    const std::byte* pairs = nibbles + group / 2 * kNibbleGroup;
    for (size_t i = 0; i < kNibbleGroup; ++i) {
      int q = group % 2 == 0 ? LowNibble(pairs[i]) : HighNibble(pairs[i]);
      if (fifth != nullptr) q |= Bits(fifth[i], group, 1) << 4;
      *out++ = step * static_cast<float>(q) - zero;
    }
  }
}

}  // namespace

// The last four pairs have their low four bits in the last four bytes, and the others on top of the
// first eight bytes.
ScaleAndOffset SixBits(const std::byte* packed, size_t group) {
  if (group < 4) return {Bits(packed[group], 0, 63), Bits(packed[group + 4], 0, 63)};
  return {LowNibble(packed[group + 4]) | Bits(packed[group - 4], 6, 3) << 4,
          HighNibble(packed[group + 4]) | Bits(packed[group], 6, 3) << 4};
}

int CodeOfQ6K(const std::byte* in, size_t i) {
  const std::byte* high = in + kHalf;
  const size_t half = i / kHalf;
  const size_t quarter = i % kHalf / 32;
  const std::byte pair = in[half * 64 + quarter % 2 * 32 + i % 32];
  return (quarter < 2 ? LowNibble(pair) : HighNibble(pair)) |
         Bits(high[half * 32 + i % 32], quarter * 2, 3) << 4;
}

int StepOfIq4Xs(const std::byte* in, size_t group) {
  const int high = LoadAs<uint16_t>(in + 2);
  const std::byte low = in[4 + group / 2];
  return (Bits(low, group % 2 * 4, 15) | ((high >> (2 * group)) & 3) << 4) - 32;
}

void DequantizeUnevenSteps(const std::byte* nibbles, float scale, float* out) {
  constexpr size_t kBytes = kQuantBlock / 2;
  for (size_t i = 0; i < kBytes; ++i) {
    out[i] = scale * kUnevenSteps[static_cast<size_t>(LowNibble(nibbles[i]))];
    out[i + kBytes] = scale * kUnevenSteps[static_cast<size_t>(HighNibble(nibbles[i]))];
  }
}

void DequantizeQ2K(const std::byte* in, float* out) {
  const std::byte* quarters = in + kGroup;
  const float d = LoadHalf(quarters + kSuperBlock / 4);
  const float e = LoadHalf(quarters + kSuperBlock / 4 + 2);
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const std::byte scales = in[i / kGroup];
    // Each half of the block has 32 bytes, with the values i, i + 32, i + 64 and i + 96 in one.
    const size_t shift = i % kHalf / 32 * 2;
    const int q = Bits(quarters[i / kHalf * 32 + i % 32], shift, 3);
    out[i] = d * static_cast<float>(LowNibble(scales)) * static_cast<float>(q) -
             e * static_cast<float>(HighNibble(scales));
  }
}

void DequantizeQ3K(const std::byte* in, float* out) {
  const std::byte* third = in;  // bit i / 32 of byte i % 32
  const std::byte* quarters = in + 32;
  const std::byte* packed = quarters + kSuperBlock / 4;
  const float d = LoadHalf(packed + 12);
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const size_t group = i / kGroup;
    const int low = group < 8 ? LowNibble(packed[group]) : HighNibble(packed[group - 8]);
    const int scale = (low | Bits(packed[8 + group % 4], group / 4 * 2, 3) << 4) - 32;
    const size_t shift = i % kHalf / 32 * 2;
    const int q = Bits(quarters[i / kHalf * 32 + i % 32], shift, 3) | Bits(third[i % 32], i / 32, 1)
                                                                          << 2;
    out[i] = d * static_cast<float>(scale) * static_cast<float>(q - 4);
  }
}

void DequantizeQ4K(const std::byte* in, float* out) {
  DequantizeSixBitGroups(in, nullptr, in + 16, out);
}

void DequantizeQ5K(const std::byte* in, float* out) {
  DequantizeSixBitGroups(in, in + 16, in + 48, out);
}

void DequantizeQ6K(const std::byte* in, float* out) {
  const std::byte* scales = in + kHalf + kSuperBlock / 4;
  const float d = LoadHalf(scales + kGroup);
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const auto scale = static_cast<float>(LoadAs<int8_t>(scales + i / kGroup));
    out[i] = d * scale * static_cast<float>(CodeOfQ6K(in, i) - 32);
  }
}

void DequantizeIq4Xs(const std::byte* in, float* out) {
  const float d = LoadHalf(in);
  const std::byte* nibbles = in + 8;
  for (size_t group = 0; group < kSuperBlock / kQuantBlock; ++group, nibbles += kGroup) {
    DequantizeUnevenSteps(nibbles, d * static_cast<float>(StepOfIq4Xs(in, group)), out);
    out += kQuantBlock;
  }
}

}  // namespace folio::model
