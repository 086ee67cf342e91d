// LoadAs reads numbers from the bytes of a model file, which have no alignment.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_STORED_BYTES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_STORED_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "services/model/source/block_formats.h"

static_assert(std::endian::native == std::endian::little, "model files are little-endian");

namespace folio::model {

template <typename T>
T LoadAs(const std::byte* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

inline float LoadHalf(const std::byte* in) { return HalfToFloat(LoadAs<uint16_t>(in)); }

inline int LowNibble(std::byte pair) { return std::to_integer<int>(pair & std::byte{0xf}); }
inline int HighNibble(std::byte pair) { return std::to_integer<int>(pair >> 4); }

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_STORED_BYTES_H_
