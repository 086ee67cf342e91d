// Reads the rotary embedding of a config.json. Older files have rope_theta beside rope_scaling, and
// those of transformers 5 have both in rope_parameters. Some have all three, for readers of both.
#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"
#include "services/model/source/raw_model.h"
#include "services/model/source/rope_rules.h"

namespace folio::model {
namespace {

using nlohmann::json;

struct Scaling {
  float linear = 1;  // divides all frequencies
  std::optional<RopeScaling> llama3 = std::nullopt;
  std::optional<YarnScaling> yarn = std::nullopt;
  std::optional<LongRopeScaling> long_rope = std::nullopt;
  float magnitude = 1;
  std::optional<QueryScale> query_scale = std::nullopt;
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

// The rest of the configuration, as far as scaling needs it.
struct Context {
  uint32_t context = 0;
  uint32_t original = 0;  // 0: it stands in the object
  bool scales_queries = false;

  // How many times the original context the model's is.
  float times(uint32_t of) const {
    return static_cast<float>(context) / static_cast<float>(std::max(of, 1u));
  }
};

void ReadYarn(JsonFields& fields, const Context& model, Scaling& scaling) {
  YarnScaling& yarn = scaling.yarn.emplace();
  yarn.original_context = fields.Uint("original_max_position_embeddings",
                                      model.original != 0 ? model.original : model.context);
  yarn.factor = fields.Float("factor", model.times(yarn.original_context));
  yarn.beta_fast = fields.Float("beta_fast", yarn.beta_fast);
  yarn.beta_slow = fields.Float("beta_slow", yarn.beta_slow);
  yarn.truncate = fields.Bool("truncate", true);
  const float multiplier = fields.Float("mscale", 0);
  const float all = fields.Float("mscale_all_dim", 0);
  const float usual = multiplier != 0 && all != 0
                          ? YarnMagnitude(yarn.factor, multiplier) / YarnMagnitude(yarn.factor, all)
                          : YarnMagnitude(yarn.factor);
  scaling.magnitude = fields.Float("attention_factor", usual);
  const float beta = fields.Float("llama_4_scaling_beta", 0);
  if (beta == 0) return;
  if (!model.scales_queries) return fields.Fail("llama_4_scaling_beta", "only 0 is supported");
  scaling.query_scale = {beta, yarn.original_context};
}

void ReadLongRope(JsonFields& fields, const Context& model, Scaling& scaling) {
  LongRopeScaling& longer = scaling.long_rope.emplace();
  longer.short_divisors = fields.Floats("short_factor");
  longer.long_divisors = fields.Floats("long_factor");
  longer.original_context =
      fields.Uint("original_max_position_embeddings",
                  model.original != 0 ? std::optional<uint32_t>(model.original) : std::nullopt);
  const float factor = fields.Float("factor", model.times(longer.original_context));
  const float usual = LongRopeMagnitude(factor, longer.original_context);
  scaling.magnitude = fields.Float("attention_factor", usual);
}

absl::StatusOr<Scaling> ReadScaling(JsonFields& fields, const json& rope, const Context& model,
                                    const std::string& where) {
  const absl::StatusOr<json> type = ReadType(fields, rope, where);
  if (!type.ok()) return type.status();
  if (const json* sections = fields.Find("mrope_section"); sections != nullptr) {
    return Unsupported(where, "mrope_section", *sections, "one position for all of a head");
  }
  Scaling scaling;
  // Phi-3's first files call it su or yarn.
  const bool is_long = *type == "longrope" || *type == "su" ||
                       (*type == "yarn" && fields.Find("short_factor") != nullptr);
  if (is_long) {
    ReadLongRope(fields, model, scaling);
  } else if (*type == "yarn") {
    ReadYarn(fields, model, scaling);
  } else if (*type == "linear") {
    scaling.linear = fields.Float("factor");
  } else if (*type == "llama3") {
    RopeScaling& llama3 = scaling.llama3.emplace();
    llama3.factor = fields.Float("factor");
    llama3.low_freq_factor = fields.Float("low_freq_factor");
    llama3.high_freq_factor = fields.Float("high_freq_factor");
    llama3.original_context = fields.Uint("original_max_position_embeddings");
  } else if (*type != "default") {
    return Unsupported(where, "rope_type", *type, "default, linear, llama3, yarn, longrope");
  }
  if (!fields.status().ok()) return fields.status();
  return scaling;
}

// A user who adds YaRN to a model of Qwen2.5 leaves its max_position_embeddings, and means a
// context of the factor times the original one.
void StretchContext(ModelConfig& config) {
  if (!config.yarn.has_value()) return;
  const double stretched =
      double{config.yarn->factor} * static_cast<double>(config.yarn->original_context);
  if (stretched > config.context && stretched <= kMaxContext) {
    config.context = static_cast<uint32_t>(stretched);
  }
}

// How many dimensions of a head are rotated, which newer files say in rope_parameters.
absl::Status ReadRotary(JsonFields& fields, const std::string& where, Agreed<float>& partial) {
  if (fields.Find("partial_rotary_factor") == nullptr) return absl::OkStatus();
  const float share = fields.Float("partial_rotary_factor");
  if (!fields.status().ok()) return fields.status();
  if (!(share > 0 && share <= 1)) {  // also for NaN
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": partial_rotary_factor: ", share, " is out of range (0, 1]"));
  }
  return partial.Set(where, "partial_rotary_factor", share);
}

// Found is the rotary embedding that the places of a file describe together.
struct Found {
  Agreed<float> theta, local_theta;
  Agreed<Scaling> scaling;
  Agreed<float> partial;
};

absl::Status ReadTheta(JsonFields& fields, const char* key, const std::string& where,
                       const std::string& place, Agreed<float>& theta) {
  if (fields.Find(key) == nullptr) return absl::OkStatus();
  const float value = fields.Float(key);
  return fields.status().ok() ? theta.Set(where, place, value) : fields.status();
}

// Reads the object at `place`, which is of local layers or of all others.
absl::Status ReadObject(const json& rope, const std::string& where, const std::string& place,
                        const Context& model, bool local, Found& found) {
  const std::string here = absl::StrCat(where, ": ", place);
  if (!rope.is_object()) return absl::InvalidArgumentError(absl::StrCat(here, ": not an object"));
  JsonFields fields(rope, here);
  const absl::StatusOr<Scaling> scaling = ReadScaling(fields, rope, model, here);
  if (!scaling.ok()) return scaling.status();
  absl::Status status;
  if (!local) {
    status = found.scaling.Set(where, place, *scaling);
  } else if (*scaling != Scaling()) {
    return Unsupported(here, "rope_type", *ReadType(fields, rope, here), "only default");
  }
  status.Update(ReadRotary(fields, here, found.partial));
  status.Update(ReadTheta(fields, "rope_theta", where, absl::StrCat(place, ".rope_theta"),
                          local ? found.local_theta : found.theta));
  return status;
}

// Newer files have an object for each kind of layer in rope_parameters.
absl::Status ReadPlaces(JsonFields& fields, const std::string& where, const Context& model,
                        bool has_local, Found& found) {
  absl::Status status = ReadRotary(fields, where, found.partial);
  status.Update(ReadTheta(fields, "rope_theta", where, "rope_theta", found.theta));
  if (has_local) {
    constexpr const char* kLocal = "rope_local_base_freq";
    status.Update(ReadTheta(fields, kLocal, where, kLocal, found.local_theta));
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* rope = fields.Find(key);
    if (rope == nullptr || !status.ok()) continue;
    const bool by_kind = has_local && rope->is_object() &&
                         (rope->contains("full_attention") || rope->contains("sliding_attention"));
    if (!by_kind) {
      status = ReadObject(*rope, where, key, model, false, found);
      continue;
    }
    for (const auto& [kind, of_kind] : rope->items()) {
      const bool local = kind == "sliding_attention";
      if (!local && kind != "full_attention") {
        return Unsupported(where, key, kind, "full_attention, sliding_attention");
      }
      if (of_kind.is_null()) continue;
      status.Update(ReadObject(of_kind, where, absl::StrCat(key, ".", kind), model, local, found));
    }
  }
  return status;
}

}  // namespace

absl::Status ReadHfRope(JsonFields& fields, const std::string& where, const Family& family,
                        ModelConfig& config) {
  Found found;
  const Context model = {config.context, fields.Uint("original_max_position_embeddings", 0),
                         config.features.has(Feature::kScaledQueries)};
  const bool has_local = config.features.has(Feature::kLocalLayers);
  absl::Status status = fields.status();
  status.Update(ReadPlaces(fields, where, model, has_local, found));
  if (!status.ok()) return status;
  config.rope_theta = found.theta.value().value_or(family.hf_defaults.rope_theta);
  if (has_local && found.local_theta.value()) {
    config.others->rope_theta = *found.local_theta.value();
  }
  const auto rotary = static_cast<uint32_t>(static_cast<float>(config.head_dim) *
                                            found.partial.value().value_or(1));
  if (rotary != config.head_dim) config.rotary_dim = std::max(rotary, 1u);  // 0 stands for all
  if (const std::optional<Scaling>& scaling = found.scaling.value(); scaling.has_value()) {
    config.rope_scaling = scaling->llama3;
    config.yarn = scaling->yarn;
    config.long_rope = scaling->long_rope;
    config.rope_magnitude = scaling->magnitude;
    config.query_scale = scaling->query_scale;
    StretchContext(config);
    const std::string factor = absl::StrCat(where, ": ", found.scaling.place(), ": factor");
    status = ScaleRopeLinearly(factor, scaling->linear, config);
  }
  status.Update(CheckRope(where, config));
  return status;
}

}  // namespace folio::model
