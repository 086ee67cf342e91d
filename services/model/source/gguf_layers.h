// ReadGgufLayers reads from a GGUF file which layers attend to a window, and the scales of scores.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_GGUF_LAYERS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_GGUF_LAYERS_H_

#include "absl/status/status.h"
#include "services/model/family/family.h"
#include "services/model/source/gguf_fields.h"
#include "services/model/source/gguf_file.h"

namespace folio::model {

// `config` has its sizes. UNIMPLEMENTED names what is not computed, INVALID_ARGUMENT a field that
// is missing or out of range.
absl::Status ReadGgufLayers(const GgufFile& gguf, const Family& family, GgufFields& fields,
                            ModelConfig& config);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_GGUF_LAYERS_H_
