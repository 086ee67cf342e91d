// Ministral 3: Llama's layer with queries that are scaled by their position. GGUF files keep the
// rows of each head in pairs, and call the family mistral3.
#include "services/model/family/family.h"
#include "services/model/family/llama_tensors.h"

namespace folio::model {
namespace {

constexpr HfLimit kLimits[] = {{"hidden_act", R"("silu")"}};

}  // namespace

extern const Family kMinistral3;
constinit const Family kMinistral3 = {.name = "ministral3",
                                      .title = "Ministral 3",
                                      .gguf_architecture = "mistral3",
                                      .hf_architecture = "Ministral3ForCausalLM",
                                      .hf_model_type = "ministral3",
                                      .features = {Feature::kScaledQueries},
                                      .gguf_rows = RopeRows::kPairs,
                                      .tensors = kLlamaTensors,
                                      .hf_limits = kLimits,
                                      .windowed = true};

}  // namespace folio::model
