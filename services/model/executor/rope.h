// RopeAngles makes the angles of rotary position embedding (Su et al., arXiv 2104.09864) in
// float32, as Hugging Face's transformers computes them.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_ROPE_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_ROPE_H_

#include <cstdint>
#include <vector>

#include "kernels/views.h"
#include "services/model/family/model_config.h"

namespace folio::model {

// [head_dim / 2]: 1 / theta^(2i / rotary), divided by `rope_divisors` when the model has them, or
// rescaled:
//   Llama 3   wavelengths above the original context are stretched by `factor`, those well below
//             stay, those between are interpolated;
//   YaRN      the same by turns within the original context, with a ramp over the pairs;
//   LongRoPE  divided by the short divisors, or by the long ones if the context is longer than the
//             original one.
// Pairs that are not rotated have 0.
std::vector<float> InverseFrequencies(const ModelConfig& config);

// Cosines and sines of positions 0, 1, ..., made when first wanted, times the model's magnitude
// where a pair is rotated. Not thread-safe.
class RopeAngles {
 public:
  explicit RopeAngles(const ModelConfig& config);

  // A table of at least `positions` positions, at most the model's context (CHECKed). The pointers
  // hold until the next call.
  kernels::RopeTable Table(uint32_t positions);

 private:
  std::vector<float> inverse_frequencies_;
  size_t rotated_pairs_;
  float magnitude_;
  uint32_t context_;
  uint32_t positions_ = 0;
  std::vector<float> cos_;  // [positions, head_dim / 2]
  std::vector<float> sin_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_ROPE_H_
