// ForwardRows is the batch of one forward pass as every device's transformer reads it. It describes
// rows, not sequences. StepRows makes it from the segments of a step.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_FORWARD_ROWS_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_FORWARD_ROWS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/views.h"
#include "services/model/executor/executor.h"
#include "services/model/family/features.h"

namespace folio::model {

// The last rows of an attention run score its slots in some layers.
struct ScoringRows {
  uint32_t run = 0;
  WindowScore window;
  LayerRange layers;
};

// The activation of the model's feed-forward network.
constexpr kernels::Activation ActivationOf(Features features) {
  return features.has(Feature::kGelu) ? kernels::Activation::kGelu : kernels::Activation::kSilu;
}

// Rows of one forward pass: decode rows, then prompt rows.
struct ForwardRows {
  kernels::RowSplit split;
  absl::Span<const uint32_t> ids;  // [rows] tokens, each below the vocabulary
  uint32_t positions = 0;          // one more than the largest logical position
  uint32_t runs = 0;               // attention runs per layer
  absl::Span<const ScoringRows> windows = {};
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_FORWARD_ROWS_H_
