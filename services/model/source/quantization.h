// Quantization says how a Hugging Face directory stores its quantised matrices, which the field
// quantization_config of config.json tells. It is internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_QUANTIZATION_H_
#define FOLIO_SERVICES_MODEL_SOURCE_QUANTIZATION_H_

#include <cstdint>

namespace folio::model {

enum class QuantizedAs {
  kNothing,     // plain floats
  kRowsE4M3,    // F8_E4M3 with a scale for the matrix or for each row
  kBlocksE4M3,  // F8_E4M3 with a scale for each block of rows and columns
  kAwq,         // 4 bits, as AutoAWQ's "gemm" packs them
  kGptq,        // 4 bits, as AutoGPTQ and GPTQModel pack them
  kPackedInt4,  // 4 bits, as compressed-tensors' "pack-quantized" packs them
};

struct Quantization {
  QuantizedAs form = QuantizedAs::kNothing;
  // kBlocksE4M3: the rows and columns of a block. Those at the edge of a matrix may be smaller.
  uint32_t block_rows = 0;
  uint32_t block_columns = 0;
  // The forms with 4 bits have these.
  uint32_t group = 0;        // columns that share a scale, and 0 for all of a row
  bool symmetric = false;    // kPackedInt4: there are no zero points
  bool any_order = false;    // kGptq: the columns of a group lie anywhere (desc_act)
  uint32_t zeros_added = 0;  // kGptq: each word of zero points is stored without it
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_QUANTIZATION_H_
