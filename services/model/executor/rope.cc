#include "services/model/executor/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "services/base/check.h"

namespace folio::model {
namespace {

float Rescale(float frequency, const RopeScaling& scaling) {
  const float context = static_cast<float>(scaling.original_context);
  const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength > context / scaling.low_freq_factor) return frequency / scaling.factor;
  if (wavelength < context / scaling.high_freq_factor) return frequency;
  const float smooth = (context / wavelength - scaling.low_freq_factor) /
                       (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

// The share by which each pair is slowed down: 0 at the fast end of the ramp, 1 at the slow one.
std::vector<float> YarnRamp(const YarnScaling& yarn, double theta, uint32_t rotary) {
  // The pair, as a real number, that turns so often within the original context.
  const auto pair_of = [&](double turns) {
    return rotary * std::log(yarn.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = pair_of(yarn.beta_fast);
  double high = pair_of(yarn.beta_slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotary - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> ramp(rotary / 2);
  for (size_t i = 0; i < ramp.size(); ++i) {
    const auto at = static_cast<float>((static_cast<double>(i) - low) / (high - low));
    ramp[i] = std::clamp(at, 0.0f, 1.0f);
  }
  return ramp;
}

const std::vector<float>& DivisorsOf(const ModelConfig& config) {
  if (!config.long_rope.has_value()) return config.rope_divisors;
  const LongRopeScaling& scaling = *config.long_rope;
  return config.context > scaling.original_context ? scaling.long_divisors : scaling.short_divisors;
}

}  // namespace

std::vector<float> InverseFrequencies(const ModelConfig& config) {
  const uint32_t rotary = config.rotary();
  const std::vector<float>& divisors = DivisorsOf(config);
  FOLIO_CHECK(divisors.empty() || divisors.size() == rotary / 2);
  std::vector<float> ramp;
  if (config.yarn.has_value()) ramp = YarnRamp(*config.yarn, config.rope_theta, rotary);
  std::vector<float> frequencies(config.head_dim / 2);
  for (uint32_t i = 0; i < rotary / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary);
    const float power = static_cast<float>(std::pow(double{config.rope_theta}, double{exponent}));
    frequencies[i] = 1.0f / power;
    if (!divisors.empty()) {
      frequencies[i] /= divisors[i];
    } else if (!ramp.empty()) {
      const float slow = 1.0f / (config.yarn->factor * power);
      frequencies[i] = slow * ramp[i] + frequencies[i] * (1 - ramp[i]);
    } else if (config.rope_scaling.has_value()) {
      frequencies[i] = Rescale(frequencies[i], *config.rope_scaling);
    }
  }
  return frequencies;
}

namespace {

std::vector<float> FrequenciesOfOthers(const ModelConfig& config) {
  FOLIO_CHECK(config.others.has_value());
  const float theta = config.others->rope_theta;
  if (theta == 0) return std::vector<float>(config.head_dim / 2);
  ModelConfig unscaled = config;
  unscaled.rope_theta = theta;
  unscaled.rope_divisors.clear();
  unscaled.rope_scaling.reset();
  unscaled.yarn.reset();
  unscaled.long_rope.reset();
  return InverseFrequencies(unscaled);
}

}  // namespace

RopeAngles::RopeAngles(const ModelConfig& config, bool others)
    : inverse_frequencies_(others ? FrequenciesOfOthers(config) : InverseFrequencies(config)),
      rotated_pairs_(config.rotary() / 2),
      magnitude_(others ? 1 : config.rope_magnitude),
      gain_(config.features.has(Feature::kHeadNorms) ? 1 : std::sqrt(config.query_gain)),
      context_(config.context) {}

kernels::RopeTable RopeAngles::Table(uint32_t positions) {
  FOLIO_CHECK(positions <= context_);
  if (positions > positions_) {
    const size_t half = inverse_frequencies_.size();
    const uint32_t grown = std::min(context_, std::max({positions, 2 * positions_, 256u}));
    cos_.resize(grown * half);
    sin_.resize(grown * half);
    for (size_t p = positions_; p < grown; ++p) {
      for (size_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(p) * inverse_frequencies_[i];
        const float magnitude = gain_ * (i < rotated_pairs_ ? magnitude_ : 1);
        cos_[p * half + i] = static_cast<float>(std::cos(double{angle})) * magnitude;
        sin_[p * half + i] = static_cast<float>(std::sin(double{angle})) * magnitude;
      }
    }
    positions_ = grown;
  }
  return {cos_.data(), sin_.data(), positions_};
}

}  // namespace folio::model
