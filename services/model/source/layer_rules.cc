#include "services/model/source/layer_rules.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/source/rope_rules.h"

namespace folio::model {

std::vector<bool> EveryNth(uint32_t period, uint32_t layers) {
  std::vector<bool> last(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) last[layer] = (layer + 1) % period == 0;
  return last;
}

void SetQueryScalar(float scalar, ModelConfig& config) {
  config.query_gain = static_cast<float>(std::sqrt(config.head_dim / double{scalar}));
}

absl::Status SetMultipliers(const std::string& origin, const Multipliers& factors,
                            ModelConfig& config) {
  for (const auto& [name, factor] : {std::pair("embedding", factors.embedding),
                                     {"scores", factors.scores},
                                     {"residuals", factors.residuals},
                                     {"logits", factors.logits}}) {
    if (factor >= 1e-4f && factor <= 1e4f) continue;  // not NaN
    return absl::InvalidArgumentError(absl::StrCat(origin, ": multiplier of ", name, " ", factor,
                                                   " is out of range [1e-4, 1e4]"));
  }
  config.embedding_scale = factors.embedding / factors.residuals;
  config.norm_eps /= factors.residuals * factors.residuals;
  config.query_gain =
      static_cast<float>(double{factors.scores} * std::sqrt(static_cast<double>(config.head_dim)));
  config.output_gain = 1 / factors.logits;
  return absl::OkStatus();
}

absl::Status FinishLayers(const std::string& origin, const Family& family, ModelConfig& config) {
  const auto wrong = [&origin](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": ", text...));
  };
  // transformers rounds this number to the type of the weights, and llama.cpp does not. Weights in
  // float32 give the same with both.
  if (config.features.has(Feature::kScaledEmbedding) && !family.has_multipliers) {
    config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config.hidden)));
  }
  if (!(config.query_gain >= 1e-3f && config.query_gain <= 1e3f)) {  // also for NaN
    return wrong("query scalar: ", config.query_gain, " times the usual scores is out of range");
  }
  if (!config.others.has_value()) return absl::OkStatus();
  const OtherLayers& others = *config.others;
  if (others.layers.size() != config.num_layers) {
    return wrong("kinds of layers: ", others.layers.size(), ", but ", config.num_layers, " layers");
  }
  const bool windowed = config.features.has(Feature::kLocalLayers);
  if (windowed && (others.window < 1 || others.window > kMaxContext)) {
    return wrong("sliding window ", others.window, " is out of range [1, ", kMaxContext, "]");
  }
  return absl::OkStatus();
}

}  // namespace folio::model
