// These functions refuse fields of a configuration that ask for a computation that no family does.
// A family that does one lists the field in Family::own_fields. They are internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_UNSERVED_FIELDS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_UNSERVED_FIELDS_H_

#include <string>

#include "absl/status/status.h"
#include "services/model/family/family.h"
#include "services/model/source/gguf_file.h"
#include "services/model/source/json_fields.h"

namespace folio::model {

// UNIMPLEMENTED names the key, its value, and the only value that is served.
absl::Status RefuseUnserved(const GgufFile& gguf, const Family& family);
absl::Status RefuseUnserved(const JsonFields& fields, const Family& family,
                            const std::string& where);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_UNSERVED_FIELDS_H_
