#include "services/model/family/model_config.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace folio::model {
namespace {

// Prompts read keys in tiles of so many, or of a part of it. It is the number of kernels/views.h,
// which this room does not know.
constexpr uint32_t kKeyTile = 64;

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

void Append(absl::Span<const float> values, std::string& text) {
  for (const float value : values) absl::StrAppend(&text, "/", Bits(value));
}

}  // namespace

CacheGeometry GeometryFor(const ModelConfig& config, uint32_t page_tokens) {
  CacheGeometry geometry = {.num_layers = config.num_layers,
                            .num_kv_heads = config.kv_heads,
                            .head_dim = config.head_dim,
                            .page_tokens = page_tokens};
  if (config.window() == 0) return geometry;
  geometry.windows = LayerWindows(config.window(), std::lcm(page_tokens, kKeyTile));
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    if (config.is_other(layer)) geometry.windows.Add(layer);
  }
  return geometry;
}

std::string ConfigText(const ModelConfig& config) {
  std::string text =
      absl::StrCat(config.architecture, "/", config.num_layers, "/", config.hidden, "/", config.ffn,
                   "/", config.heads, "/", config.kv_heads, "/", config.head_dim, "/", config.vocab,
                   "/", config.context, "/", Bits(config.rope_theta), "/", Bits(config.norm_eps),
                   "/", config.tied_embeddings);
  Append(config.rope_divisors, text);
  if (config.rope_scaling) {
    const RopeScaling& scaling = *config.rope_scaling;
    Append({scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor}, text);
    absl::StrAppend(&text, "/", scaling.original_context);
  }
  // A model without these has the text, and so the fingerprint, that it had before they were known.
  if (config.yarn) {
    absl::StrAppend(&text, "/yarn/", config.yarn->original_context, "/", config.yarn->truncate);
    Append({config.yarn->factor, config.yarn->beta_fast, config.yarn->beta_slow}, text);
  }
  if (config.long_rope) {
    absl::StrAppend(&text, "/long_rope/", config.long_rope->original_context);
    Append(config.long_rope->short_divisors, text);
    Append(config.long_rope->long_divisors, text);
  }
  if (config.rope_magnitude != 1) absl::StrAppend(&text, "/x/", Bits(config.rope_magnitude));
  if (config.rotary_dim != 0) absl::StrAppend(&text, "/rotary/", config.rotary_dim);
  if (config.query_scale) {
    absl::StrAppend(&text, "/query/", Bits(config.query_scale->beta), "/",
                    config.query_scale->original_context);
  }
  if (config.query_gain != 1) absl::StrAppend(&text, "/gain/", Bits(config.query_gain));
  if (config.output_gain != 1) absl::StrAppend(&text, "/out/", Bits(config.output_gain));
  if (config.embedding_scale != 1) absl::StrAppend(&text, "/e/", Bits(config.embedding_scale));
  if (config.others) {
    absl::StrAppend(&text, "/others/", config.others->window, "/", Bits(config.others->rope_theta),
                    "/");
    for (const bool other : config.others->layers) text.push_back(other ? '1' : '0');
  }
  return text;
}

float QueryFactor(const QueryScale& scale, uint32_t position) {
  const uint32_t contexts = position / scale.original_context;
  return 1 + scale.beta * std::log(1 + static_cast<float>(contexts));
}

float YarnMagnitude(float factor, float multiplier) {
  return factor <= 1 ? 1 : 0.1f * multiplier * std::log(factor) + 1;
}

float LongRopeMagnitude(float factor, uint32_t original_context) {
  if (factor <= 1) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<float>(original_context)));
}

}  // namespace folio::model
