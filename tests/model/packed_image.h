// PackedPair is a tiny Hugging Face directory with quantised matrices, beside one with the numbers
// that the codes stand for.
#ifndef FOLIO_TESTS_MODEL_PACKED_IMAGE_H_
#define FOLIO_TESTS_MODEL_PACKED_IMAGE_H_

#include <cstdint>

#include "tests/testing/hf_image.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {

enum class Packing {
  kAwq,
  kGptq,
  kGptqOrder,
  kGptqV2,
  kPackQuantized,
  kPackQuantizedZeros,
  kBlocks
};

struct PackedPair {
  ::folio::testing::HfImage packed;
  ::folio::testing::HfImage plain;  // in F32
};

// Codes, zeros and scales are drawn by a fixed generator. The scales are powers of two, so that the
// numbers are those of bfloat16. `group` is 0 for one group a row. Blocks have `group` rows and
// columns.
PackedPair MakePackedPair(Packing packing, uint32_t group,
                          const ::folio::testing::TinyOptions& options = {});

}  // namespace folio::model

#endif  // FOLIO_TESTS_MODEL_PACKED_IMAGE_H_
