// Granite 3 without experts: Llama's layer, whose embedding, scores, residuals and
// logits are multiplied by factors of the configuration.
#include "services/model/family/family.h"
#include "services/model/family/llama_tensors.h"

namespace folio::model {
namespace {

constexpr HfLimit kLimits[] = {
    {"attention_bias", "false"}, {"mlp_bias", "false"}, {"hidden_act", R"("silu")"}};

constexpr const char* kOwnFields[] = {
    "attention.scale",      "embedding_scale",      "residual_scale",      "logit_scale",
    "attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"};

}  // namespace

extern const Family kGranite;
constinit const Family kGranite = {.name = "granite",
                                   .title = "Granite",
                                   .gguf_architecture = "granite",
                                   .hf_architecture = "GraniteForCausalLM",
                                   .hf_model_type = "granite",
                                   .features = {Feature::kScaledEmbedding},
                                   .gguf_rows = RopeRows::kPairs,
                                   .tensors = kLlamaTensors,
                                   .hf_limits = kLimits,
                                   .own_fields = kOwnFields,
                                   .has_multipliers = true};

}  // namespace folio::model
