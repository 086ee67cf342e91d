// ReadGgufRope reads the rotary embedding of a model from a GGUF file.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_GGUF_ROPE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_GGUF_ROPE_H_

#include "absl/status/status.h"
#include "services/model/family/family.h"
#include "services/model/source/gguf_fields.h"
#include "services/model/source/gguf_file.h"

namespace folio::model {

// Frequencies, their divisors and scaling, the dimensions that are rotated, and the scale of
// queries. `config` has its sizes. UNIMPLEMENTED names what is not computed, INVALID_ARGUMENT a
// field or tensor that does not fit.
absl::Status ReadGgufRope(const GgufFile& gguf, const Family& family, GgufFields& fields,
                          ModelConfig& config);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_GGUF_ROPE_H_
