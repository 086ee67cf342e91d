// The safetensors container: a length, a JSON directory, the tensors' bytes. Checked like the
// format's own reader does it: every tensor's size follows from type and shape, and together they
// cover the bytes after the directory without a gap or an overlap. Thread-safe.
#ifndef FOLIO_SERVICES_MODEL_SAFETENSORS_FILE_H_
#define FOLIO_SERVICES_MODEL_SAFETENSORS_FILE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/dequantize.h"
#include "services/model/mapped_file.h"

namespace folio::model {

// The tensors of a file, by offset. They borrow from the mapping. DATA_LOSS names file and tensor;
// UNIMPLEMENTED an unknown type. Types of known size that are no weights (I64, ...) come as kOther.
absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(const MappedFile& file);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SAFETENSORS_FILE_H_
