#include "services/model/source/raw_model.h"

#include "absl/strings/str_cat.h"
#include "services/model/source/rope_rules.h"
#include "services/runtime/logging.h"

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

}  // namespace

void LimitContext(const std::string& origin, uint32_t window, ModelConfig& config) {
  if (window == 0 || window >= config.context) return;
  log::Warning("layers attend to a window, so the context is limited to it",
               {{"model", origin}, {"context_length", config.context}, {"window", window}});
  config.context = window;
}

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
  if (!(config.norm_eps >= 0.0f && config.norm_eps <= 0.1f)) {  // also for NaN
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": norm epsilon ", config.norm_eps, " is out of range [0, 0.1]"));
  }
  return CheckRope(origin, config);
}

}  // namespace folio::model
