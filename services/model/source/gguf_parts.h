// OpenGgufModel opens the files of a GGUF model. It is internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_GGUF_PARTS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_GGUF_PARTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/model/source/gguf_file.h"

namespace folio::model {

// The model of the file at `path`, which may be one of several parts, as llama.cpp's gguf-split
// writes them: NAME-00001-of-00003.gguf and so on in one folder. Then all parts are opened. The
// metadata is that of the first one, and the tensors are those of all. NOT_FOUND names a part that
// is missing, DATA_LOSS a part or tensor that contradicts another one. INVALID_ARGUMENT: the file
// is a part and its name does not tell where the others are.
absl::StatusOr<GgufFile> OpenGgufModel(const std::string& path);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_GGUF_PARTS_H_
