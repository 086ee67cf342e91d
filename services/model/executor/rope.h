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
// where a pair is rotated, and the root of its gain if queries have no norms. Not thread-safe.
class RopeAngles {
 public:
  // Those of the model's other layers if `others`, which it must then have (CHECKed).
  explicit RopeAngles(const ModelConfig& config, bool others = false);

  // A table of at least `positions` positions, at most the model's context (CHECKed). The pointers
  // hold until the next call.
  kernels::RopeTable Table(uint32_t positions);

 private:
  std::vector<float> inverse_frequencies_;
  size_t rotated_pairs_;
  float magnitude_;  // of rotated pairs
  float gain_;       // of all pairs: see ModelConfig::query_gain
  uint32_t context_;
  uint32_t positions_ = 0;
  std::vector<float> cos_;  // [positions, head_dim / 2]
  std::vector<float> sin_;
};

// The angles of all layers of a model.
struct LayerAngles {
  kernels::RopeTable usual;
  kernels::RopeTable others;  // empty if the model has no other layers

  const kernels::RopeTable& of(bool is_other) const { return is_other ? others : usual; }
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_ROPE_H_
