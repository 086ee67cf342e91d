// These functions read the JSON files of a Hugging Face model directory. They are
// internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_HF_FILES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_HF_FILES_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "services/model/family/model_config.h"
#include "services/model/source/json_fields.h"
#include "services/model/tokenizer/tokenizer_spec.h"

namespace folio::model {

// Reads config.json of a family that is known. UNIMPLEMENTED names a field that asks for what this
// code does not compute (another architecture or activation, quantised weights, another rope type),
// INVALID_ARGUMENT a field that is missing or of the wrong type.
absl::StatusOr<ModelConfig> ReadHfConfig(const std::string& directory);

// Checks the field quantization_config of config.json. Served are weights in F8_E4M3 with a scale
// for each matrix or row, and activations that are quantised as they come: quant_method "fp8"
// without blocks, and "compressed-tensors" in the format "float-quantized". UNIMPLEMENTED names the
// part that asks for something else.
absl::Status CheckHfQuantization(const nlohmann::json& quantization, const std::string& where);

// Reads rope_theta, rope_scaling and rope_parameters of config.json, whose path is `where`, into a
// configuration whose sizes are checked. UNIMPLEMENTED names a type that is not computed, and
// INVALID_ARGUMENT a field that is missing, out of range, or contradicts another place.
absl::Status ReadHfRope(JsonFields& fields, const std::string& where, ModelConfig& config);

// Reads tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json; only
// the first must be there. A sequence ends with the ids of generation_config.json (or, without
// them, of config.json) and with the tokenizer's own eos token. Added tokens beyond the model's
// `vocab` rows are left out with a warning, so that their texts are ordinary text. INVALID_ARGUMENT
// when another token of tokenizer.json is beyond them, or when eos or bos is left out.
absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const std::string& directory, uint32_t vocab);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_HF_FILES_H_
