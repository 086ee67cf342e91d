// A GgufTensorType is a number format that tensors of GGUF files may have, as ggml numbers and
// names it.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_GGUF_TENSOR_TYPES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_GGUF_TENSOR_TYPES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "services/model/source/block_formats.h"

namespace folio::model {

struct GgufTensorType {
  uint32_t code;  // in the file
  absl::string_view name;
  StorageType type;  // kOther: not read
};

// Null if there is none.
const GgufTensorType* FindTensorType(uint32_t code);
const GgufTensorType* FindTensorType(absl::string_view name);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_GGUF_TENSOR_TYPES_H_
