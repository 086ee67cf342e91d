// Encode writes floats in the storage formats of services/model/source/block_formats.h, with the
// plain rounding of each.
#ifndef FOLIO_TESTS_TESTING_QUANTIZE_H_
#define FOLIO_TESTS_TESTING_QUANTIZE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "services/model/source/block_formats.h"

namespace folio::testing {

// The nearest half-precision number, with ties to even. Numbers that are too large become infinity.
uint16_t FloatToHalf(float value);

// `values` is a whole number of blocks of `type`.
std::string Encode(model::StorageType type, absl::Span<const float> values);

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_QUANTIZE_H_
