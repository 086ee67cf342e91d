// Llama 1 to 3 and the models built like them (SmolLM2, TinyLlama): the layer that the other
// families differ from.
#include "services/model/family/family.h"
#include "services/model/family/llama_tensors.h"

namespace folio::model {
namespace {

constexpr HfLimit kLimits[] = {
    {"attention_bias", "false"}, {"mlp_bias", "false"}, {"hidden_act", R"("silu")"}};

}  // namespace

extern const Family kLlama;
constinit const Family kLlama = {.name = "llama",
                                 .title = "Llama",
                                 .gguf_architecture = "llama",
                                 .hf_architecture = "LlamaForCausalLM",
                                 .hf_model_type = "llama",
                                 .features = {},
                                 .gguf_rows = RopeRows::kPairs,
                                 .tensors = kLlamaTensors,
                                 .hf_limits = kLimits};

}  // namespace folio::model
