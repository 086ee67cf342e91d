// CheckFit tests whether a model, a pool and an executor's settings fit together.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_POOL_FIT_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_POOL_FIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/views.h"
#include "services/model/family/model_config.h"

namespace folio::model {

// INVALID_ARGUMENT names the field of the pool's geometry that differs from the model, or the
// setting below 1.
absl::Status CheckFit(const ModelConfig& config, const kernels::PoolView& pool, int threads,
                      uint32_t max_rows);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_POOL_FIT_H_
