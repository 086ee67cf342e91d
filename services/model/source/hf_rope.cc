// Reads the rotary embedding of a config.json. Older files have rope_theta beside rope_scaling, and
// those of transformers 5 have both in rope_parameters. Some have all three, for readers of both.
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"
#include "services/model/source/raw_model.h"

namespace folio::model {
namespace {

using nlohmann::json;

struct Scaling {
  float linear = 1;  // divides all frequencies
  std::optional<RopeScaling> llama3 = std::nullopt;
  friend bool operator==(const Scaling&, const Scaling&) = default;
};

// A value that several places of a file may have, which then agree.
template <typename T>
class Agreed {
 public:
  // INVALID_ARGUMENT names both places if an earlier one has another value.
  absl::Status Set(const std::string& where, const std::string& place, const T& value) {
    if (value_.has_value() && !(*value_ == value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", place, " contradicts ", place_, "; remove the wrong one"));
    }
    if (!value_.has_value()) place_ = place;
    value_ = value;
    return absl::OkStatus();
  }
  const std::optional<T>& value() const { return value_; }
  const std::string& place() const { return place_; }  // the first

 private:
  std::optional<T> value_;
  std::string place_;
};

// The type of an object, which has two names. An object without a type that has only the fields of
// every type scales nothing.
absl::StatusOr<json> ReadType(const JsonFields& fields, const json& rope,
                              const std::string& where) {
  const json* type = fields.Find("rope_type");
  const json* older = fields.Find("type");
  if (type == nullptr && older == nullptr) {
    for (const auto& [key, value] : rope.items()) {
      if (value.is_null() || key == "rope_theta" || key == "partial_rotary_factor") continue;
      return absl::InvalidArgumentError(absl::StrCat(where, ": rope_type: missing"));
    }
    return json("default");
  }
  Agreed<json> agreed;
  absl::Status status;
  if (older != nullptr) status = agreed.Set(where, "type", *older);
  if (type != nullptr) status.Update(agreed.Set(where, "rope_type", *type));
  if (!status.ok()) return status;
  return *agreed.value();
}

absl::StatusOr<Scaling> ReadScaling(JsonFields& fields, const json& rope,
                                    const std::string& where) {
  const json* partial = fields.Find("partial_rotary_factor");
  if (partial != nullptr && *partial != 1.0) {
    return Unsupported(where, "partial_rotary_factor", *partial, "only 1");
  }
  const absl::StatusOr<json> type = ReadType(fields, rope, where);
  if (!type.ok()) return type.status();
  Scaling scaling;
  if (*type == "linear") {
    scaling.linear = fields.Float("factor");
  } else if (*type == "llama3") {
    RopeScaling& llama3 = scaling.llama3.emplace();
    llama3.factor = fields.Float("factor");
    llama3.low_freq_factor = fields.Float("low_freq_factor");
    llama3.high_freq_factor = fields.Float("high_freq_factor");
    llama3.original_context = fields.Uint("original_max_position_embeddings");
  } else if (*type != "default") {
    return Unsupported(where, "rope_type", *type, "default, linear, llama3");
  }
  if (!fields.status().ok()) return fields.status();
  return scaling;
}

}  // namespace

absl::Status ReadHfRope(JsonFields& fields, const std::string& where, ModelConfig& config) {
  Agreed<float> theta;
  Agreed<Scaling> scaling;
  absl::Status status;
  if (fields.Find("rope_theta") != nullptr) {
    status = theta.Set(where, "rope_theta", fields.Float("rope_theta"));
    status.Update(fields.status());
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* rope = fields.Find(key);
    if (rope == nullptr || !status.ok()) continue;
    const std::string here = absl::StrCat(where, ": ", key);
    if (!rope->is_object())
      return absl::InvalidArgumentError(absl::StrCat(here, ": not an object"));
    JsonFields inner(*rope, here);
    const absl::StatusOr<Scaling> read = ReadScaling(inner, *rope, here);
    if (!read.ok()) return read.status();
    status = scaling.Set(where, key, *read);
    if (inner.Find("rope_theta") == nullptr) continue;
    const float inner_theta = inner.Float("rope_theta");
    status.Update(inner.status());
    status.Update(theta.Set(where, absl::StrCat(key, ".rope_theta"), inner_theta));
  }
  if (!status.ok()) return status;
  config.rope_theta = theta.value().value_or(10000.0f);
  if (scaling.value().has_value()) {
    config.rope_scaling = scaling.value()->llama3;
    const std::string factor = absl::StrCat(where, ": ", scaling.place(), ": factor");
    status = ScaleRopeLinearly(factor, scaling.value()->linear, config);
  }
  status.Update(CheckRope(where, config));
  return status;
}

}  // namespace folio::model
