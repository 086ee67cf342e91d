// Floats into the storage formats of services/model/dequantize.h: the plain rounding of each.
#ifndef FOLIO_TESTS_TESTING_QUANTIZE_H_
#define FOLIO_TESTS_TESTING_QUANTIZE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "services/model/dequantize.h"

namespace folio::testing {

// Nearest half-precision number, ties to even; too large becomes infinity.
uint16_t FloatToHalf(float value);

// `values` is a whole number of blocks of `type`.
std::string Encode(model::StorageType type, absl::Span<const float> values);

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_QUANTIZE_H_
