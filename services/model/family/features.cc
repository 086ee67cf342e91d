#include "services/model/family/features.h"

#include "absl/strings/str_cat.h"
#include "services/model/family/model_config.h"

namespace folio::model {
namespace {

struct FeatureName {
  Feature feature;
  const char* name;
};

constexpr FeatureName kNames[] = {
    {Feature::kQkvBias, "biases of queries, keys and values"},
    {Feature::kHeadNorms, "RMS norms of each head's query and key"},
    {Feature::kPostNorms, "norms of what attention and feed-forward add"},
    {Feature::kGelu, "GELU in the feed-forward network"},
    {Feature::kScaledEmbedding, "a scaled embedding"},
    {Feature::kLocalLayers, "layers that attend to a local window"},
    {Feature::kUnrotatedLayers, "layers without rotary embedding"},
    {Feature::kScaledQueries, "queries that are scaled by their position"},
    {Feature::kSoftCaps, "soft caps of scores and logits"},
};

}  // namespace

absl::Status CheckFeatures(const ModelConfig& config, Features computed,
                           absl::string_view transformer) {
  for (const FeatureName& each : kNames) {
    if (!config.features.has(each.feature) || computed.has(each.feature)) continue;
    return absl::UnimplementedError(absl::StrCat("model ", config.name, " of the family ",
                                                 config.architecture, " has ", each.name,
                                                 ", which ", transformer, " does not compute"));
  }
  return absl::OkStatus();
}

}  // namespace folio::model
