// Reads what config.json says about quantised weights. The tensors themselves are checked when they
// are found.
#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"

namespace folio::model {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxBlock = 1u << 16;

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
  // A list of two natural numbers, or null.
  QuantizationFields& Block(absl::string_view field, Quantization& read) {
    const json value = fields_.value(std::string(field), json());
    if (value.is_null()) return *this;
    const auto side = [&value](size_t at) {
      return value.is_array() && value.size() == 2 && value[at].is_number_unsigned() &&
                     value[at] > 0 && value[at] <= kMaxBlock
                 ? value[at].get<uint32_t>()
                 : 0;
    };
    read.block_rows = side(0);
    read.block_columns = side(1);
    if (read.block_rows == 0 || read.block_columns == 0) {
      status_.Update(Unsupported(where_, field, value, "two numbers, as in [128, 128]"));
    }
    return *this;
  }

  // How many columns share a scale; -1 stands for all.
  QuantizationFields& Group(absl::string_view field, uint32_t& group) {
    Only(field, {32, 64, 128, -1});
    const json value = fields_.value(std::string(field), json());
    if (value.is_number_unsigned()) group = value.get<uint32_t>();
    return *this;
  }

  // A field that must be there.
  bool Bool(absl::string_view field) {
    Only(field, {true, false});
    return fields_.value(std::string(field), json()) == true;
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

// Weights of 4 bits with a scale for each group of columns or for each row.
absl::Status ReadInt4Group(const json& group, const std::string& where, Quantization& read) {
  const json weights = group.value("weights", json());
  if (!weights.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": weights: missing"));
  }
  QuantizationFields fields(weights, where + ": weights");
  fields.Only("type", {"int"}).Only("num_bits", {4}).Only("strategy", {"group", "channel"});
  fields.Only("actorder", {nullptr, "weight", "static", false}).Only("dynamic", {nullptr, false});
  if (weights.value("strategy", json()) == "group") fields.Group("group_size", read.group);
  read.symmetric = fields.Bool("symmetric");
  if (!fields.status().ok()) return fields.status();
  return QuantizationFields(group, where)
      .Only("input_activations", {nullptr})
      .Only("output_activations", {nullptr})
      .status();
}

absl::Status ReadCompressedTensors(const json& quantization, const std::string& here,
                                   Quantization& read) {
  absl::Status status = QuantizationFields(quantization, here)
                            .Only("format", {"float-quantized", "pack-quantized"})
                            .Only("kv_cache_scheme", {nullptr})
                            .status();
  if (!status.ok()) return status;
  const bool packed = quantization["format"] == "pack-quantized";
  read.form = packed ? QuantizedAs::kPackedInt4 : QuantizedAs::kRowsE4M3;
  const json groups = quantization.value("config_groups", json());
  if (!groups.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(here, ": config_groups: missing"));
  }
  if (packed && groups.size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat(here, ": config_groups: ", groups.size(), " groups; one is supported"));
  }
  for (const auto& [name, group] : groups.items()) {
    const std::string place = absl::StrCat(here, ": config_groups: ", name);
    if (!group.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": not an object"));
    }
    absl::Status checked = packed ? ReadInt4Group(group, place, read) : CheckGroup(group, place);
    if (!checked.ok()) return checked;
  }
  return absl::OkStatus();
}

absl::Status ReadFp8(const json& quantization, const std::string& here, Quantization& read) {
  QuantizationFields fields(quantization, here);
  fields.Only("activation_scheme", {"dynamic"}).Block("weight_block_size", read);
  read.form = read.block_rows == 0 ? QuantizedAs::kRowsE4M3 : QuantizedAs::kBlocksE4M3;
  return fields.status();
}

absl::Status ReadAwq(const json& quantization, const std::string& here, Quantization& read) {
  read.form = QuantizedAs::kAwq;
  return QuantizationFields(quantization, here)
      .Only("bits", {4})
      .Only("version", {"gemm", "GEMM"})
      .Only("zero_point", {true})
      .Group("group_size", read.group)
      .status();
}

absl::Status ReadGptq(const json& quantization, const std::string& here, Quantization& read) {
  read.form = QuantizedAs::kGptq;
  QuantizationFields fields(quantization, here);
  fields.Only("bits", {4})
      .Group("group_size", read.group)
      .Only("checkpoint_format", {nullptr, "gptq", "gptq_v2"})
      .Only("format", {nullptr, "gptq", "gptq_v2"})
      .Only("is_marlin_format", {nullptr, false})
      .Only("pack_dtype", {nullptr, "int32"})
      .Only("dynamic", {nullptr, json::object()})
      .Only("sym", {nullptr, true, false});
  read.any_order = fields.Bool("desc_act");
  // Older files store each zero point less one, which is taken from whole words of them.
  const bool newer = quantization.value("checkpoint_format", json()) == "gptq_v2" ||
                     quantization.value("format", json()) == "gptq_v2";
  read.zeros_added = newer ? 0 : 0x11111111u;
  return fields.status();
}

}  // namespace

absl::StatusOr<Quantization> ReadHfQuantization(const json& quantization,
                                                const std::string& where) {
  const std::string here = where + ": quantization_config";
  if (!quantization.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(here, ": not an object"));
  }
  absl::Status status = QuantizationFields(quantization, here)
                            .Only("quant_method", {"fp8", "compressed-tensors", "awq", "gptq"})
                            .status();
  if (!status.ok()) return status;
  const json& method = quantization["quant_method"];
  Quantization read;
  if (method == "fp8") status = ReadFp8(quantization, here, read);
  if (method == "compressed-tensors") status = ReadCompressedTensors(quantization, here, read);
  if (method == "awq") status = ReadAwq(quantization, here, read);
  if (method == "gptq") status = ReadGptq(quantization, here, read);
  if (!status.ok()) return status;
  return read;
}

}  // namespace folio::model
