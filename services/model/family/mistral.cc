// Mistral: Llama's layer under other names of the configuration.
// Converters write "llama" into GGUF files of these models, so those are read as Llama's.
#include "services/model/family/family.h"
#include "services/model/family/llama_tensors.h"

namespace folio::model {
namespace {

// Mistral-7B-v0.1 has a window, and its successors have null.
constexpr HfLimit kLimits[] = {{"hidden_act", R"("silu")"}};

}  // namespace

extern const Family kMistral;
constinit const Family kMistral = {.name = "mistral",
                                   .title = "Mistral",
                                   .gguf_architecture = nullptr,
                                   .hf_architecture = "MistralForCausalLM",
                                   .hf_model_type = "mistral",
                                   .features = {},
                                   .gguf_rows = RopeRows::kPairs,
                                   .tensors = kLlamaTensors,
                                   .hf_limits = kLimits,
                                   .windowed = true};

}  // namespace folio::model
