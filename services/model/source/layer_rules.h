// These functions are the rules for layers that attend to a window and for the scales of a model,
// which both formats share. They are internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_LAYER_RULES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_LAYER_RULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/model/family/family.h"
#include "services/model/family/model_config.h"

namespace folio::model {

// Periods of layers in files that do not name the kind of each. The last layer of a period attends
// to all tokens in Gemma 3, and does not rotate in SmolLM3. llama.cpp and transformers have the
// same.
inline constexpr uint32_t kGlobalPeriod = 6;
inline constexpr uint32_t kUnrotatedPeriod = 4;

// Whether each layer is the last of a run of `period`. The period is not 0.
std::vector<bool> EveryNth(uint32_t period, uint32_t layers);

// Divides attention's scores by the square root of `scalar` in place of that of head_dim.
void SetQueryScalar(float scalar, ModelConfig& config);

// Factors of a configuration (Granite).
struct Multipliers {
  float embedding = 1;
  float scores = 1;     // in place of 1 / sqrt(head_dim)
  float residuals = 1;  // of what attention and feed-forward network add to the state
  float logits = 1;     // by which they are divided
};

// Makes a configuration that computes the same with one factor of the embedding, one of the scores
// and one of the logits. A state divided by the factor of residuals is added to without that
// factor, and norms see no difference if their epsilon is divided by its square. INVALID_ARGUMENT
// names a factor that is not a positive number of usual size.
absl::Status SetMultipliers(const std::string& origin, const Multipliers& factors,
                            ModelConfig& config);

// Sets what follows from the sizes, which are checked, and checks the rest. INVALID_ARGUMENT names
// what is out of range.
absl::Status FinishLayers(const std::string& origin, const Family& family, ModelConfig& config);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_LAYER_RULES_H_
