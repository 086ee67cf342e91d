#include "services/model/source/gguf_rope.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/source/rope_rules.h"

namespace folio::model {
namespace {

class RopeReader {
 public:
  RopeReader(const GgufFile& gguf, const Family& family, GgufFields& fields, ModelConfig& config)
      : gguf_(gguf), key_(family.gguf_architecture), fields_(fields), config_(config) {}

  absl::Status Read() {
    config_.rope_theta = fields_.Float(key_("rope.freq_base"), 10000.0f);
    for (const auto step : {&RopeReader::ReadRotary, &RopeReader::ReadDivisors,
                            &RopeReader::ReadScaling, &RopeReader::ReadQueryScale}) {
      absl::Status status = (this->*step)();
      if (!status.ok()) return status;
      if (!fields_.status().ok()) return fields_.status();
    }
    return absl::OkStatus();
  }

 private:
  template <typename... Text>
  absl::Status Wrong(const Text&... text) const {
    return absl::InvalidArgumentError(absl::StrCat(gguf_.path(), ": ", text...));
  }
  absl::Status ReadRotary() {
    const std::string key = key_("rope.dimension_count");
    const uint32_t rotated = fields_.Uint(key, config_.head_dim);
    if (rotated == 0 || rotated % 2 != 0 || rotated > config_.head_dim) {
      return Wrong(key, ": ", rotated, " is not an even part of the head's ", config_.head_dim);
    }
    if (rotated != config_.head_dim) config_.rotary_dim = rotated;
    return absl::OkStatus();
  }

  // Empty if the file lacks the tensor.
  absl::StatusOr<std::vector<float>> ReadPositive(absl::string_view name) const {
    const StoredTensor* tensor = gguf_.FindTensor(name);
    if (tensor == nullptr) return std::vector<float>();
    const std::string where = absl::StrCat(gguf_.path(), ": tensor ", name, ": ");
    const uint32_t pairs = config_.rotary() / 2;
    if (tensor->type != StorageType::kF32) {
      return absl::UnimplementedError(absl::StrCat(where, tensor->type_name, ", only F32 can be"));
    }
    if (tensor->shape != std::vector<uint64_t>{pairs}) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "shape ", ShapeText(tensor->shape), ", expected [", pairs, "]"));
    }
    absl::StatusOr<std::vector<float>> values = ReadFloats(*tensor);
    if (!values.ok()) return values.status();
    for (const float value : *values) {
      if (value <= 0) {
        return absl::InvalidArgumentError(absl::StrCat(where, "a divisor that is not positive"));
      }
    }
    return values;
  }

  absl::Status ReadDivisors() {
    absl::StatusOr<std::vector<float>> divisors = ReadPositive("rope_freqs.weight");
    if (!divisors.ok()) return divisors.status();
    config_.rope_divisors = *std::move(divisors);
    LongRopeScaling scaling;
    for (const auto& [name, to] : {std::pair("rope_factors_short.weight", &scaling.short_divisors),
                                   std::pair("rope_factors_long.weight", &scaling.long_divisors)}) {
      absl::StatusOr<std::vector<float>> read = ReadPositive(name);
      if (!read.ok()) return read.status();
      *to = *std::move(read);
    }
    if (scaling.short_divisors.empty() && scaling.long_divisors.empty()) return absl::OkStatus();
    if (scaling.short_divisors.empty() || scaling.long_divisors.empty()) {
      return Wrong(
          "tensors rope_factors_short.weight and rope_factors_long.weight: one is missing");
    }
    scaling.original_context = fields_.Uint(key_("rope.scaling.original_context_length"));
    config_.long_rope = std::move(scaling);
    config_.rope_magnitude = fields_.Float(key_("rope.scaling.attn_factor"), 1);
    return absl::OkStatus();
  }

  absl::Status ReadScaling() {
    const std::string key = key_("rope.scaling.type");
    const std::string type = fields_.String(key, config_.long_rope ? "none" : "linear");
    if (!fields_.status().ok()) return fields_.status();
    if (type == "none" || (type == "longrope" && config_.long_rope)) return absl::OkStatus();
    if (type == "linear") return ReadLinear();
    if (type != "yarn")
      return Unsupported(gguf_, key, type, "none, linear, yarn, longrope with its factors");
    return ReadYarn(key);
  }

  // Files without a type scale by the factor that they have, as llama.cpp does, and 0 stands for no
  // factor.
  absl::Status ReadLinear() {
    std::string used;
    float factor = 1;
    for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {
      const float value = fields_.Float(key_(name), 0);
      if (!fields_.status().ok()) return fields_.status();
      if (value == 0) continue;
      if (!used.empty() && value != factor) {
        return Wrong(key_(name), ": ", value, " contradicts ", used, " ", factor);
      }
      used = key_(name);
      factor = value;
    }
    return ScaleRopeLinearly(absl::StrCat(gguf_.path(), ": ", used), factor, config_);
  }

  absl::Status ReadYarn(const std::string& key) {
    if (!config_.rope_divisors.empty() || config_.long_rope) {
      return Wrong(key, ": yarn, but the file has divisors of frequencies too");
    }
    YarnScaling yarn;
    yarn.factor = fields_.Float(key_("rope.scaling.factor"));
    yarn.beta_fast = fields_.Float(key_("rope.scaling.yarn_beta_fast"), yarn.beta_fast);
    yarn.beta_slow = fields_.Float(key_("rope.scaling.yarn_beta_slow"), yarn.beta_slow);
    yarn.original_context = fields_.Uint(key_("rope.scaling.original_context_length"));
    const float ext_factor = fields_.Float(key_("rope.scaling.yarn_ext_factor"), 1);
    if (ext_factor != 1) {
      return Unsupported(gguf_, key_("rope.scaling.yarn_ext_factor"), ext_factor, "only 1");
    }
    const float multiplier = fields_.Float(key_("rope.scaling.yarn_log_multiplier"), 0);
    config_.yarn = yarn;
    config_.rope_magnitude = YarnMagnitude(yarn.factor) / YarnMagnitude(yarn.factor, multiplier) *
                             fields_.Float(key_("rope.scaling.yarn_attn_factor"), 1);
    return absl::OkStatus();
  }

  absl::Status ReadQueryScale() {
    const std::string key = key_("attention.temperature_scale");
    const float beta = fields_.Float(key, 0);
    if (beta == 0) return absl::OkStatus();
    if (!config_.features.has(Feature::kScaledQueries))
      return Unsupported(gguf_, key, beta, "only 0");
    config_.query_scale = {beta, fields_.Has(key_("attention.temperature_length"))
                                     ? fields_.Uint(key_("attention.temperature_length"))
                                     : fields_.Uint(key_("rope.scaling.original_context_length"))};
    return absl::OkStatus();
  }

  const GgufFile& gguf_;
  const GgufKeys key_;
  GgufFields& fields_;
  ModelConfig& config_;
};

}  // namespace

absl::Status ReadGgufRope(const GgufFile& gguf, const Family& family, GgufFields& fields,
                          ModelConfig& config) {
  return RopeReader(gguf, family, fields, config).Read();
}

}  // namespace folio::model
