// ModelConfig holds the sizes and numbers of one model, as its files give them, in terms that no
// file format or family owns.
#ifndef FOLIO_SERVICES_MODEL_FAMILY_MODEL_CONFIG_H_
#define FOLIO_SERVICES_MODEL_FAMILY_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/model/family/features.h"

namespace folio::model {

// Llama-3 rescaling of the rotary frequencies.
struct RopeScaling {
  float factor = 1;
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  uint32_t original_context = 8192;
};

struct ModelConfig {
  std::string name;
  std::string architecture;  // the name of the model's Family: "llama"
  Features features;         // the family's
  uint32_t num_layers = 0;
  uint32_t hidden = 0;
  uint32_t ffn = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocab = 0;
  uint32_t output_rows = 0;  // rows of the output matrix; 0 stands for the vocabulary
  uint32_t context = 0;
  float rope_theta = 10000;
  // Explicit divisors of the inverse frequencies, [head_dim / 2] (GGUF rope_freqs.weight), or
  // scaling, or neither.
  std::vector<float> rope_divisors;
  std::optional<RopeScaling> rope_scaling;
  float norm_eps = 1e-5f;
  bool tied_embeddings = false;

  uint32_t outputs() const { return output_rows != 0 ? output_rows : vocab; }
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_FAMILY_MODEL_CONFIG_H_
