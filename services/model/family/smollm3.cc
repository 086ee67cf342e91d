// SmolLM3: Llama's layer, of which every fourth one does not rotate queries and keys.
#include "services/model/family/family.h"
#include "services/model/family/llama_tensors.h"

namespace folio::model {
namespace {

// `sliding_window` means nothing while use_sliding_window is false.
constexpr HfLimit kLimits[] = {{"attention_bias", "false"},
                               {"mlp_bias", "false"},
                               {"hidden_act", R"("silu")"},
                               {"use_sliding_window", "false"}};

constexpr const char* kOwnFields[] = {"no_rope_layers"};

}  // namespace

extern const Family kSmolLm3;
constinit const Family kSmolLm3 = {.name = "smollm3",
                                   .title = "SmolLM3",
                                   .gguf_architecture = "smollm3",
                                   .hf_architecture = "SmolLM3ForCausalLM",
                                   .hf_model_type = "smollm3",
                                   .features = {Feature::kUnrotatedLayers},
                                   .gguf_rows = RopeRows::kPairs,
                                   .tensors = kLlamaTensors,
                                   .hf_limits = kLimits,
                                   .own_fields = kOwnFields,
                                   .hf_defaults = {.rope_theta = 2e6f, .tied = true}};

}  // namespace folio::model
