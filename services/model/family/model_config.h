// ModelConfig holds the sizes and numbers of one model, as its files give them, in terms that no
// file format or family owns.
#ifndef FOLIO_SERVICES_MODEL_FAMILY_MODEL_CONFIG_H_
#define FOLIO_SERVICES_MODEL_FAMILY_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/base/geometry.h"
#include "services/model/family/features.h"

namespace folio::model {

// Llama-3 rescaling of the rotary frequencies.
struct RopeScaling {
  float factor = 1;
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  uint32_t original_context = 8192;
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

// YaRN (Peng et al., arXiv 2309.00071): pairs that turn more than `beta_fast` times within the
// original context keep their frequencies, those that turn less than `beta_slow` times have them
// divided by `factor`, and between them is a ramp.
struct YarnScaling {
  float factor = 1;
  float beta_fast = 32;
  float beta_slow = 1;
  uint32_t original_context = 8192;
  // Whether the ends of the ramp are whole numbers of pairs.
  bool truncate = true;
  friend bool operator==(const YarnScaling&, const YarnScaling&) = default;
};

// LongRoPE (Ding et al., arXiv 2402.13753): divisors of the frequencies, [rotary / 2] each. The
// long ones serve a model whose context is longer than the original one.
struct LongRopeScaling {
  std::vector<float> short_divisors, long_divisors;
  uint32_t original_context = 4096;
  friend bool operator==(const LongRopeScaling&, const LongRopeScaling&) = default;
};

// Queries grow with their position, so that attention stays sharp over long texts: times
// 1 + beta * ln(1 + floor(position / original_context)) (Ministral 3).
struct QueryScale {
  float beta = 0;
  uint32_t original_context = 8192;
  friend bool operator==(const QueryScale&, const QueryScale&) = default;
};

// Layers of a second kind. They attend to a window of latest tokens and turn by angles of their
// own, of which none is scaled (Gemma 3), or they do not turn (SmolLM3).
struct OtherLayers {
  uint32_t window = 0;            // tokens to which a token attends, itself among them (0: all)
  float rope_theta = 10000;       // 0: queries and keys are not rotated
  std::vector<bool> layers = {};  // [num_layers]
  friend bool operator==(const OtherLayers&, const OtherLayers&) = default;
};

// The factor for a query.
float QueryFactor(const QueryScale& scale, uint32_t position);

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
  uint32_t rotary_dim = 0;  // dimensions of a head that are rotated; 0 stands for all
  // Explicit divisors of the inverse frequencies, [rotary / 2] (GGUF rope_freqs.weight, linear
  // scaling), or one of the kinds of scaling, or nothing.
  std::vector<float> rope_divisors;
  std::optional<RopeScaling> rope_scaling;
  std::optional<YarnScaling> yarn;
  std::optional<LongRopeScaling> long_rope;
  float rope_magnitude = 1;  // cosines and sines of rotated pairs are multiplied by it
  std::optional<QueryScale> query_scale;
  // Scores are query_gain * q k / sqrt(head_dim). Query norms have the factor in their weights, and
  // angles have its root where there are no such norms.
  float query_gain = 1;
  float output_gain = 1;  // logits are multiplied by it, and the final norm has it in its weights
  std::optional<OtherLayers> others;  // with kLocalLayers or kUnrotatedLayers
  float embedding_scale = 1;          // the state begins as so many times the embedding
  float norm_eps = 1e-5f;
  bool tied_embeddings = false;

  uint32_t rotary() const { return rotary_dim != 0 ? rotary_dim : head_dim; }
  uint32_t outputs() const { return output_rows != 0 ? output_rows : vocab; }
  bool is_other(uint32_t layer) const { return others.has_value() && others->layers[layer]; }
  // Tokens to which layers with a window attend, or 0 if there are none.
  uint32_t window() const { return others.has_value() ? others->window : 0; }
};

// The shape of the model's cache on one rank that has all of it.
CacheGeometry GeometryFor(const ModelConfig& config, uint32_t page_tokens);

// Every field that changes what the model computes, numbers by their bits. Equal texts are equal
// configurations.
std::string ConfigText(const ModelConfig& config);

// The magnitude that YaRN's authors suggest for a factor, by which frequencies are divided.
float YarnMagnitude(float factor, float multiplier = 1);
// LongRoPE's. The factor is that of the contexts.
float LongRopeMagnitude(float factor, uint32_t original_context);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_FAMILY_MODEL_CONFIG_H_
