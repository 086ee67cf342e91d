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

}  // namespace

std::vector<float> InverseFrequencies(const ModelConfig& config) {
  const uint32_t half = config.head_dim / 2;
  FOLIO_CHECK(config.rope_divisors.empty() || config.rope_divisors.size() == half);
  std::vector<float> frequencies(half);
  for (uint32_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    const float power = static_cast<float>(std::pow(double{config.rope_theta}, double{exponent}));
    frequencies[i] = 1.0f / power;
    if (!config.rope_divisors.empty()) {
      frequencies[i] /= config.rope_divisors[i];
    } else if (config.rope_scaling.has_value()) {
      frequencies[i] = Rescale(frequencies[i], *config.rope_scaling);
    }
  }
  return frequencies;
}

RopeAngles::RopeAngles(const ModelConfig& config)
    : inverse_frequencies_(InverseFrequencies(config)), context_(config.context) {}

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
        cos_[p * half + i] = static_cast<float>(std::cos(double{angle}));
        sin_[p * half + i] = static_cast<float>(std::sin(double{angle}));
      }
    }
    positions_ = grown;
  }
  return {cos_.data(), sin_.data(), positions_};
}

}  // namespace folio::model
