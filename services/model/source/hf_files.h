// These functions read the JSON files of a Hugging Face model directory. They are
// internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_HF_FILES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_HF_FILES_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "services/model/family/family.h"
#include "services/model/family/model_config.h"
#include "services/model/source/json_fields.h"
#include "services/model/source/quantization.h"
#include "services/model/tokenizer/tokenizer_spec.h"

namespace folio::model {

// The contents of config.json.
struct HfConfig {
  ModelConfig model;
  Quantization quantization = {};
};

// Reads config.json of a family that is known. UNIMPLEMENTED names a field that asks for what this
// code does not compute (another architecture or activation, quantised weights, another rope type),
// INVALID_ARGUMENT a field that is missing or of the wrong type.
absl::StatusOr<HfConfig> ReadHfConfig(const std::string& directory);

// Reads the field quantization_config of config.json. Served are the forms of quantization.h:
//   quant_method "fp8": with scales of blocks if there is a weight_block_size
//   quant_method "compressed-tensors": the formats "float-quantized" with a scale for each matrix
//   or row, and "pack-quantized" with 4 bits quant_method "awq": 4 bits, version "gemm", with zero
//   points quant_method "gptq": 4 bits, of both checkpoint formats
// with activations that are quantised as they come, or not. UNIMPLEMENTED names the part that asks
// for something else.
absl::StatusOr<Quantization> ReadHfQuantization(const nlohmann::json& quantization,
                                                const std::string& where);

// Reads which layers attend to a window, and the scales of a model, from config.json, whose path is
// `where`, into a configuration whose sizes are checked. Errors are as above.
absl::Status ReadHfLayers(JsonFields& fields, const std::string& where, const Family& family,
                          ModelConfig& config);

// Reads rope_theta, rope_scaling and rope_parameters likewise, after the layers. UNIMPLEMENTED
// names a type that is not computed, and INVALID_ARGUMENT a field that is missing, out of range, or
// contradicts another place.
absl::Status ReadHfRope(JsonFields& fields, const std::string& where, const Family& family,
                        ModelConfig& config);

// Reads tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json; only
// the first must be there. A sequence ends with the ids of generation_config.json (or, without
// them, of config.json) and with the tokenizer's own eos token. Added tokens beyond the model's
// `vocab` rows are left out with a warning, so that their texts are ordinary text. INVALID_ARGUMENT
// when another token of tokenizer.json is beyond them, or when eos or bos is left out.
absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const std::string& directory, uint32_t vocab);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_HF_FILES_H_
