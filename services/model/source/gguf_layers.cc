#include "services/model/source/gguf_layers.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/source/layer_rules.h"

namespace folio::model {
namespace {

// The one model of Gemma 3 whose scores are not divided by sqrt(head_dim) is told by its layers.
constexpr uint32_t kLayersOfGemma27B = 62;

absl::Status ReadLocal(const GgufFile& gguf, const GgufKeys& key, GgufFields& fields,
                       ModelConfig& config) {
  OtherLayers local;
  local.window = fields.Uint(key("attention.sliding_window"));
  local.rope_theta = fields.Float(key("rope.freq_base_swa"), local.rope_theta);
  const std::string pattern = key("attention.sliding_window_pattern");
  const GgufValue* kinds = gguf.Find(pattern);
  if (kinds != nullptr && std::holds_alternative<GgufArray>(*kinds)) {
    local.layers = fields.Bools(pattern);
  } else {
    const uint32_t period = fields.Uint(pattern, kGlobalPeriod);
    if (period == 0)
      return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": ", pattern, ": 0"));
    local.layers = EveryNth(period, config.num_layers);
    local.layers.flip();
  }
  config.others = std::move(local);
  return fields.status();
}

// Files do not name the layers.
void SetUnrotated(ModelConfig& config) {
  OtherLayers unrotated;
  unrotated.rope_theta = 0;
  unrotated.layers = EveryNth(kUnrotatedPeriod, config.num_layers);
  config.others = std::move(unrotated);
}

absl::Status ReadMultipliers(const GgufFile& gguf, const GgufKeys& key, GgufFields& fields,
                             ModelConfig& config) {
  Multipliers factors;
  factors.logits = fields.Float(key("logit_scale"));
  factors.embedding = fields.Float(key("embedding_scale"), 1);
  // 0 stands for what is usual.
  const float residuals = fields.Float(key("residual_scale"), 0);
  const float scores = fields.Float(key("attention.scale"), 0);
  factors.residuals = residuals != 0 ? residuals : 1;
  factors.scores = scores != 0 ? scores : 1 / std::sqrt(static_cast<float>(config.head_dim));
  if (!fields.status().ok()) return fields.status();
  return SetMultipliers(gguf.path(), factors, config);
}

}  // namespace

absl::Status ReadGgufLayers(const GgufFile& gguf, const Family& family, GgufFields& fields,
                            ModelConfig& config) {
  const GgufKeys key(family.gguf_architecture);
  if (config.features.has(Feature::kLocalLayers)) {
    if (absl::Status status = ReadLocal(gguf, key, fields, config); !status.ok()) return status;
    const bool by_heads = config.num_layers == kLayersOfGemma27B;
    const auto usual =
        static_cast<float>(by_heads ? config.hidden / config.heads : config.head_dim);
    const float scale = fields.Float(key("attention.scale"), 0);
    SetQueryScalar(scale != 0 ? 1 / (scale * scale) : usual, config);
  }
  if (config.features.has(Feature::kUnrotatedLayers)) SetUnrotated(config);
  if (!fields.status().ok()) return fields.status();
  if (family.has_multipliers) {
    absl::Status status = ReadMultipliers(gguf, key, fields, config);
    if (!status.ok()) return status;
  }
  return FinishLayers(gguf.path(), family, config);
}

}  // namespace folio::model
