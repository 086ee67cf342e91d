// ParseSafetensors reads a safetensors file, which is a length, a JSON directory and the tensors'
// bytes. It checks what the format's own reader checks. Every tensor's size follows from its type
// and shape, and together they cover the bytes after the directory without a gap or an overlap.
// Thread-safe.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_SAFETENSORS_FILE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_SAFETENSORS_FILE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/source/dequantize.h"
#include "services/model/source/mapped_file.h"

namespace folio::model {

// The tensors of a file, by offset. They borrow from the mapping. DATA_LOSS names file and tensor,
// UNIMPLEMENTED an unknown type. Types of known size that weights never have (I64, ...) come as
// kOther.
absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(const MappedFile& file);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_SAFETENSORS_FILE_H_
