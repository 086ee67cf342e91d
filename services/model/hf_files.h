// The JSON files of a Hugging Face model directory. Internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_HF_FILES_H_
#define FOLIO_SERVICES_MODEL_HF_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/model/model_source.h"

namespace folio::model {

// config.json of a LlamaForCausalLM. UNIMPLEMENTED names a feature this code does not compute
// (another architecture or activation, biases, quantised weights, another rope type),
// INVALID_ARGUMENT a field that is missing or of the wrong type.
absl::StatusOr<ModelConfig> ReadHfConfig(const std::string& directory);

// tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json; only the
// first must be there. A sequence ends with the ids of generation_config.json (or, without them, of
// config.json) and with the tokenizer's own eos token. INVALID_ARGUMENT when tokenizer.json has ids
// that the model's `vocab` rows do not.
absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const std::string& directory, uint32_t vocab);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_HF_FILES_H_
