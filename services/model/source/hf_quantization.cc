// Checks what config.json says about quantised weights. The tensors themselves are checked when
// they are found.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"

namespace folio::model {
namespace {

using nlohmann::json;

// Checks fields of a configuration and keeps the first error.
class QuantizationFields {
 public:
  QuantizationFields(const json& fields, std::string where)
      : fields_(fields), where_(std::move(where)) {}

  // The value must be one of `served`; null stands for a field that is missing.
  QuantizationFields& Only(absl::string_view field, const json& served) {
    const auto found = fields_.find(std::string(field));
    const json value = found == fields_.end() ? json() : *found;
    for (const json& each : served) {
      if (value == each) return *this;
    }
    status_.Update(Unsupported(where_, field, value, absl::StrCat("only ", served.dump())));
    return *this;
  }
  const absl::Status& status() const { return status_; }

 private:
  const json& fields_;
  const std::string where_;
  absl::Status status_;
};

// Weights with a scale for each matrix or row, and activations that are quantised as they come.
absl::Status CheckGroup(const json& group, const std::string& where) {
  const json weights = group.value("weights", json());
  if (!weights.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": weights: missing"));
  }
  absl::Status status = QuantizationFields(weights, where + ": weights")
                            .Only("type", {"float"})
                            .Only("num_bits", {8})
                            .Only("strategy", {"channel", "tensor"})
                            .status();
  const json activations = group.value("input_activations", json());
  if (!status.ok() || activations.is_null()) return status;
  if (!activations.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": input_activations: not an object"));
  }
  return QuantizationFields(activations, where + ": input_activations")
      .Only("type", {"float"})
      .Only("num_bits", {8})
      .Only("dynamic", {true})
      .status();
}

}  // namespace

absl::Status CheckHfQuantization(const json& quantization, const std::string& where) {
  const std::string here = where + ": quantization_config";
  if (!quantization.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(here, ": not an object"));
  }
  QuantizationFields fields(quantization, here);
  fields.Only("quant_method", {"fp8", "compressed-tensors"});
  if (!fields.status().ok()) return fields.status();
  if (quantization["quant_method"] == "fp8") {
    fields.Only("activation_scheme", {"dynamic"}).Only("weight_block_size", {nullptr});
    return fields.status();
  }
  fields.Only("format", {"float-quantized"}).Only("kv_cache_scheme", {nullptr});
  if (!fields.status().ok()) return fields.status();
  const json groups = quantization.value("config_groups", json());
  if (!groups.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(here, ": config_groups: missing"));
  }
  for (const auto& [name, group] : groups.items()) {
    const std::string place = absl::StrCat(here, ": config_groups: ", name);
    if (!group.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": not an object"));
    }
    if (absl::Status status = CheckGroup(group, place); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace folio::model
