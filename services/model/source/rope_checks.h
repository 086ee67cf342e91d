// CheckRope checks the numbers of a model's rotary embedding.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_ROPE_CHECKS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_ROPE_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "services/model/family/model_config.h"

namespace folio::model {

inline constexpr uint32_t kMaxContext = 1u << 28;

// INVALID_ARGUMENT names the number that is out of range. The sizes of `config` are right.
absl::Status CheckRope(const std::string& origin, const ModelConfig& config);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_ROPE_CHECKS_H_
