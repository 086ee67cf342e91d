// A Feature is something that the layers of a model family compute and Llama's do not. A family
// lists its features, each transformer lists those that it computes, and CheckFeatures compares the
// lists before any weight is loaded: a model is either computed as its authors meant it, or refused
// by the name of what is missing.
#ifndef FOLIO_SERVICES_MODEL_FAMILY_FEATURES_H_
#define FOLIO_SERVICES_MODEL_FAMILY_FEATURES_H_

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace folio::model {

struct ModelConfig;

enum class Feature : uint8_t {
  kQkvBias,          // queries, keys and values have a bias each, added before rotation (Qwen2)
  kHeadNorms,        // an RMS norm of each head's query and key before rotation (Qwen3, Gemma 3)
  kPostNorms,        // an RMS norm of what attention and feed-forward add to the state (Gemma 3)
  kGelu,             // the gate passes GELU in place of SiLU (Gemma 3)
  kScaledEmbedding,  // the embedding is multiplied by a number (Gemma 3, Granite)
  kLocalLayers,      // some layers attend to a window, with rotary angles of their own (Gemma 3)
  kUnrotatedLayers,  // some layers do not rotate queries and keys (SmolLM3)
  kScaledQueries,    // queries are scaled by their position (Ministral 3)
  kSoftCaps,         // scores and logits x become cap * tanh(x / cap) (Gemma 2)
};

// A set of features.
class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> features) {
    for (const Feature feature : features) bits_ |= Bit(feature);
  }
  constexpr bool has(Feature feature) const { return (bits_ & Bit(feature)) != 0; }
  friend constexpr bool operator==(Features, Features) = default;

 private:
  static constexpr uint32_t Bit(Feature feature) { return 1u << static_cast<uint32_t>(feature); }
  uint32_t bits_ = 0;
};

// UNIMPLEMENTED names the first feature of the model that is not among `computed`, the family, and
// `transformer` ("the CPU transformer").
absl::Status CheckFeatures(const ModelConfig& config, Features computed,
                           absl::string_view transformer);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_FAMILY_FEATURES_H_
