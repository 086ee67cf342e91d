#include "tests/testing/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/views.h"
#include "services/base/check.h"

namespace folio::testing {
namespace {

using model::kQuantBlock;
using model::StorageType;

template <typename T>
void Append(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Half-precision scale, and the inverse of what it is after rounding.
float AppendScale(float scale, std::string& out) {
  const uint16_t half = FloatToHalf(scale);
  Append(half, out);
  const float rounded = model::HalfToFloat(half);
  return rounded == 0 ? 0 : 1 / rounded;
}

int Nearest(float value, int low, int high) {
  return std::clamp(static_cast<int>(std::lround(value)), low, high);
}

void AppendNibbles(absl::Span<const float> block, float offset, float inverse, int zero,
                   std::string& out) {
  constexpr size_t kHalf = kQuantBlock / 2;
  for (size_t i = 0; i < kHalf; ++i) {
    const int low = Nearest((block[i] - offset) * inverse + static_cast<float>(zero), 0, 15);
    const int high =
        Nearest((block[i + kHalf] - offset) * inverse + static_cast<float>(zero), 0, 15);
    out.push_back(static_cast<char>(low | (high << 4)));
  }
}

void AppendBlock(StorageType type, absl::Span<const float> block, std::string& out) {
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const float largest = std::max(std::fabs(*low), std::fabs(*high));
  switch (type) {
    case StorageType::kQ8_0: {
      const float inverse = AppendScale(largest / 127, out);
      for (const float value : block) {
        out.push_back(static_cast<char>(Nearest(value * inverse, -127, 127)));
      }
      return;
    }
    case StorageType::kQ4_0: {
      const float inverse = AppendScale(largest / 7, out);
      AppendNibbles(block, 0, inverse, 8, out);
      return;
    }
    case StorageType::kQ4_1: {
      const float inverse = AppendScale((*high - *low) / 15, out);
      const uint16_t offset = FloatToHalf(*low);
      Append(offset, out);
      AppendNibbles(block, model::HalfToFloat(offset), inverse, 0, out);
      return;
    }
    default:
      FOLIO_CHECK(false);
  }
}

}  // namespace

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  if (magnitude < 0x1p-14f) {  // subnormal: multiples of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  uint32_t rounded = std::bit_cast<uint32_t>(magnitude);
  rounded += 0xfffu + ((rounded >> 13) & 1u);
  return sign | static_cast<uint16_t>((rounded >> 13) - ((127u - 15u) << 10));
}

std::string Encode(StorageType type, absl::Span<const float> values) {
  std::string out;
  for (size_t i = 0; i < values.size(); i += model::BlockValues(type)) {
    switch (type) {
      case StorageType::kF32:
        Append(values[i], out);
        break;
      case StorageType::kF16:
        Append(FloatToHalf(values[i]), out);
        break;
      case StorageType::kBF16:
        Append(kernels::bf16::Round(values[i]).bits, out);
        break;
      default:
        AppendBlock(type, values.subspan(i, kQuantBlock), out);
    }
  }
  return out;
}

}  // namespace folio::testing
