#include <filesystem>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"
#include "services/model/source/raw_model.h"
#include "services/model/source/unserved_fields.h"

namespace folio::model {
namespace {

using nlohmann::json;

// Whether `architectures` has the family's, or that of a model without its output matrix, which is
// saved as "LlamaModel".
bool Lists(const json& architectures, const Family& family) {
  const std::string whole = family.hf_architecture;
  const std::string base = family.hf_base_architecture != nullptr
                               ? family.hf_base_architecture
                               : absl::StrCat(absl::StripSuffix(whole, "ForCausalLM"), "Model");
  return architectures.is_array() && absl::c_any_of(architectures, [&](const json& each) {
           return each == whole || each == base;
         });
}

std::string KnownModelTypes() {
  return absl::StrJoin(Families(), ", ", [](std::string* out, const Family* family) {
    absl::StrAppend(out, family->hf_model_type);
  });
}

// The family of model_type where `architectures` lists no entry or several, and else that of the
// only entry, which model_type must not contradict.
absl::StatusOr<const Family*> ReadFamily(const JsonFields& fields, const std::string& where) {
  const json* names = fields.Find("architectures");
  const json* type = fields.Find("model_type");
  const bool none = names == nullptr || *names == json::array();
  if (type == nullptr && (none || (names->is_array() && names->size() > 1))) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": architectures: ", none ? "missing" : "several", ", and model_type is missing"));
  }
  for (const Family* family : Families()) {
    if (type == nullptr || *type != family->hf_model_type) continue;
    if (none || Lists(*names, *family)) return family;
  }
  if (none) {
    return Unsupported(where, "model_type", *type, absl::StrCat("known: ", KnownModelTypes()));
  }
  for (const Family* family : Families()) {
    if (!Lists(*names, *family)) continue;
    if (type == nullptr) return family;
    return Unsupported(where, "model_type", *type, absl::StrCat("only ", family->hf_model_type));
  }
  return Unsupported(where, "architectures", *names,
                     absl::StrCat("known: ", KnownArchitectures(Format::kHf)));
}

// The language model of a larger model has its configuration in a part of that one's config.json.
absl::Status RefuseOtherInputs(const JsonFields& fields, const std::string& where) {
  for (const char* key : {"vision_config", "audio_config", "text_config"}) {
    if (fields.Find(key) == nullptr) continue;
    return absl::UnimplementedError(absl::StrCat(
        where, ": ", key,
        ": a model for other input than text is not supported; give "
        "the directory of a language model alone, whose config.json has no such field"));
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const JsonFields& fields, const Family& family, const std::string& where) {
  for (const HfLimit& limit : family.hf_limits) {
    const json* value = fields.Find(limit.key);
    if (value != nullptr && *value != json::parse(limit.only)) {
      return Unsupported(where, limit.key, *value, absl::StrCat("only ", limit.only));
    }
  }
  if (absl::Status unserved = RefuseUnserved(fields, family, where); !unserved.ok()) {
    return unserved;
  }
  return absl::OkStatus();
}

// The directory's own name, with "." and a closing slash resolved.
std::string DirectoryName(const std::string& directory) {
  std::error_code error;
  const auto path = std::filesystem::canonical(directory, error);
  return error ? directory : path.filename().string();
}

}  // namespace

absl::StatusOr<HfConfig> ReadHfConfig(const std::string& directory) {
  const std::string where = directory + "/config.json";
  const absl::StatusOr<json> object = ReadJsonObject(where);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, where);
  if (absl::Status text = RefuseOtherInputs(fields, where); !text.ok()) return text;
  const absl::StatusOr<const Family*> family = ReadFamily(fields, where);
  if (!family.ok()) return family.status();
  if (absl::Status status = CheckLimits(fields, **family, where); !status.ok()) return status;

  HfConfig whole;
  if (const json* quantized = fields.Find("quantization_config"); quantized != nullptr) {
    const absl::StatusOr<Quantization> served = ReadHfQuantization(*quantized, where);
    if (!served.ok()) return served.status();
    whole.quantization = *served;
  }
  ModelConfig& config = whole.model;
  config.architecture = (*family)->name;
  config.features = (*family)->features;
  config.name = fields.String("_name_or_path", "");
  if (config.name.empty()) config.name = DirectoryName(directory);
  for (const SizeKey& size : CommonSizeKeys()) config.*size.field = fields.Uint(size.hf);
  config.kv_heads = fields.Uint("num_key_value_heads", config.heads);
  config.vocab = fields.Uint("vocab_size");
  config.norm_eps = fields.Float("rms_norm_eps");
  config.tied_embeddings = fields.Bool("tie_word_embeddings", (*family)->hf_defaults.tied);
  if (!fields.status().ok()) return fields.status();
  if (fields.Find("head_dim") != nullptr) {
    config.head_dim = fields.Uint("head_dim");
  } else if ((*family)->hf_defaults.head_dim != 0) {
    config.head_dim = (*family)->hf_defaults.head_dim;
  } else if (config.heads == 0 || config.hidden % config.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": num_attention_heads: ", config.heads,
                                                   " does not divide hidden_size ", config.hidden));
  } else {
    config.head_dim = config.hidden / config.heads;
  }
  if (!fields.status().ok()) return fields.status();
  if (absl::Status status = CheckConfig(where, config); !status.ok()) return status;
  absl::Status status = ReadHfLayers(fields, where, **family, config);
  if (status.ok()) status = ReadHfRope(fields, where, **family, config);
  if (!status.ok()) return status;
  if ((*family)->windowed) LimitContext(where, fields.Uint("sliding_window", 0), config);
  if (!fields.status().ok()) return fields.status();
  return whole;
}

}  // namespace folio::model
