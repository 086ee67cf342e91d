// Reads from config.json which layers are of a second kind, and the scales of a model. Older files
// of models with windows name the period of the layers without, and newer ones the kind of each.
#include <string>

#include "absl/strings/str_cat.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"
#include "services/model/source/layer_rules.h"

namespace folio::model {
namespace {

using nlohmann::json;

absl::Status ReadLocal(JsonFields& fields, const std::string& where, ModelConfig& config) {
  OtherLayers local;
  local.window = fields.Uint("sliding_window");
  const json* kinds = fields.Find("layer_types");
  const uint32_t period = fields.Uint("sliding_window_pattern", kGlobalPeriod);
  if (!fields.status().ok()) return fields.status();
  if (kinds != nullptr && !kinds->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": layer_types: not a list"));
  }
  for (const json& kind : kinds != nullptr ? *kinds : json::array()) {
    if (kind != "full_attention" && kind != "sliding_attention") {
      return Unsupported(where, "layer_types", kind, "full_attention, sliding_attention");
    }
    local.layers.push_back(kind == "sliding_attention");
  }
  if (kinds == nullptr) {
    if (period == 0) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": sliding_window_pattern: 0"));
    }
    local.layers = EveryNth(period, config.num_layers);
    local.layers.flip();
  }
  config.others = std::move(local);
  return absl::OkStatus();
}

// A list has 0 for each layer that does not rotate.
absl::Status ReadUnrotated(JsonFields& fields, const std::string& where, ModelConfig& config) {
  OtherLayers unrotated;
  unrotated.rope_theta = 0;
  const json* list = fields.Find("no_rope_layers");
  const uint32_t period = fields.Uint("no_rope_layer_interval", kUnrotatedPeriod);
  if (!fields.status().ok()) return fields.status();
  if (list != nullptr) {
    for (const uint32_t rotates : fields.UintOrList("no_rope_layers")) {
      unrotated.layers.push_back(rotates == 0);
    }
  } else if (period == 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": no_rope_layer_interval: 0"));
  } else {
    unrotated.layers = EveryNth(period, config.num_layers);
  }
  config.others = std::move(unrotated);
  return fields.status();
}

// Refuses a model of which some layers attend to a window.
absl::Status CheckFull(const JsonFields& fields, const std::string& where) {
  const json* kinds = fields.Find("layer_types");
  if (kinds == nullptr || *kinds == json::array_t(kinds->size(), "full_attention")) {
    return absl::OkStatus();
  }
  return Unsupported(where, "layer_types", *kinds, "only full_attention");
}

}  // namespace

absl::Status ReadHfLayers(JsonFields& fields, const std::string& where, const Family& family,
                          ModelConfig& config) {
  const bool local = config.features.has(Feature::kLocalLayers);
  absl::Status status = local ? ReadLocal(fields, where, config) : CheckFull(fields, where);
  if (status.ok() && config.features.has(Feature::kUnrotatedLayers)) {
    status = ReadUnrotated(fields, where, config);
  }
  if (!status.ok()) return status;
  if (family.hf_defaults.query_scalar != 0) {
    SetQueryScalar(fields.Float("query_pre_attn_scalar", family.hf_defaults.query_scalar), config);
  }
  if (!fields.status().ok()) return fields.status();
  if (family.has_multipliers) {
    const Multipliers factors = {.embedding = fields.Float("embedding_multiplier", 1),
                                 .scores = fields.Float("attention_multiplier", 1),
                                 .residuals = fields.Float("residual_multiplier", 1),
                                 .logits = fields.Float("logits_scaling", 1)};
    status = fields.status();
    status.Update(SetMultipliers(where, factors, config));
    if (!status.ok()) return status;
  }
  return FinishLayers(where, family, config);
}

}  // namespace folio::model
