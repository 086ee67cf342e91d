#include "services/model/source/raw_model.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace folio::model {
namespace {

struct Range {
  absl::string_view field;
  uint32_t value;
  uint32_t low;
  uint32_t high;
};

// Wide enough for any model of today, narrow enough that the product of two fits into 64 bits.
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxWidth = 1u << 20;
constexpr uint32_t kMaxHeads = 1u << 12;
constexpr uint32_t kMaxHeadDim = 1u << 10;
constexpr uint32_t kMaxVocab = 1u << 24;
constexpr uint32_t kMaxContext = 1u << 28;

bool InRange(float value, float low, float high) {  // false for NaN
  return value >= low && value <= high;
}

absl::Status CheckRope(const std::string& origin, const ModelConfig& config) {
  const auto wrong = [&origin](absl::string_view field, float value, absl::string_view range) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": ", field, " ", value, " is out of range ", range));
  };
  if (!InRange(config.rope_theta, 1.0f, 1e12f)) {
    return wrong("rope theta", config.rope_theta, "[1, 1e12]");
  }
  if (!config.rope_scaling) return absl::OkStatus();
  const RopeScaling& scaling = *config.rope_scaling;
  if (!InRange(scaling.factor, 1.0f, 1e6f)) {
    return wrong("rope scaling factor", scaling.factor, "[1, 1e6]");
  }
  if (!InRange(scaling.low_freq_factor, 1e-6f, 1e6f)) {
    return wrong("rope scaling low_freq_factor", scaling.low_freq_factor, "[1e-6, 1e6]");
  }
  if (!InRange(scaling.high_freq_factor, 1e-6f, 1e6f) ||
      scaling.high_freq_factor <= scaling.low_freq_factor) {
    return wrong("rope scaling high_freq_factor", scaling.high_freq_factor,
                 "(low_freq_factor, 1e6]");
  }
  if (scaling.original_context == 0 || scaling.original_context > kMaxContext) {
    return wrong("rope scaling original context", static_cast<float>(scaling.original_context),
                 absl::StrCat("[1, ", kMaxContext, "]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConfig(const std::string& origin, const ModelConfig& config) {
  const Range ranges[] = {
      {"number of layers", config.num_layers, 1, kMaxLayers},
      {"hidden size", config.hidden, 1, kMaxWidth},
      {"feed-forward size", config.ffn, 1, kMaxWidth},
      {"number of heads", config.heads, 1, kMaxHeads},
      {"number of KV heads", config.kv_heads, 1, kMaxHeads},
      {"head dimension", config.head_dim, 2, kMaxHeadDim},
      {"vocabulary size", config.vocab, 1, kMaxVocab},
      {"context length", config.context, 1, kMaxContext},
  };
  for (const Range& range : ranges) {
    if (range.value < range.low || range.value > range.high) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": ", range.field, " ", range.value,
                                                     " is out of range [", range.low, ", ",
                                                     range.high, "]"));
    }
  }
  if (config.heads % config.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": number of heads ", config.heads,
                                                   " is not a multiple of the ", config.kv_heads,
                                                   " KV heads"));
  }
  if (config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": head dimension ", config.head_dim, " is odd"));
  }
  if (!InRange(config.norm_eps, 0.0f, 0.1f)) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": norm epsilon ", config.norm_eps, " is out of range [0, 0.1]"));
  }
  return CheckRope(origin, config);
}

}  // namespace folio::model
