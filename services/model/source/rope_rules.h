// CheckRope checks the numbers of a model's rotary embedding, and ScaleRopeLinearly changes them.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_ROPE_RULES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_ROPE_RULES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "services/model/family/model_config.h"

namespace folio::model {

inline constexpr uint32_t kMaxContext = 1u << 28;

// INVALID_ARGUMENT names the number that is out of range. The sizes of `config` are right.
absl::Status CheckRope(const std::string& origin, const ModelConfig& config);

// Divides all frequencies by `factor`, as the scaling "linear" does, in a configuration whose sizes
// are checked. INVALID_ARGUMENT: `field`, the place of the factor, is out of range.
absl::Status ScaleRopeLinearly(const std::string& field, float factor, ModelConfig& config);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_ROPE_RULES_H_
