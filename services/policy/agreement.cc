#include "services/policy/agreement.h"

#include <array>
#include <cmath>
#include <limits>

#include "services/base/check.h"

namespace folio::policy {
namespace {

// Sums go to as many accumulators, in turn, so that they need not wait for each other.
constexpr size_t kLanes = 8;

double Total(const std::array<double, kLanes>& lanes) {
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

bool IsFinite(float value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

// The mean of the finite values, and one over their standard deviation, which is 0 if they are all
// the same.
struct Scale {
  float mean;
  float inverse;
};

Scale ScaleOf(absl::Span<const float> values) {
  std::array<double, kLanes> count = {};
  std::array<double, kLanes> sum = {};
  for (size_t i = 0; i < values.size(); ++i) {
    const bool finite = IsFinite(values[i]);
    count[i % kLanes] += finite ? 1 : 0;
    sum[i % kLanes] += finite ? double{values[i]} : 0;
  }
  const double finite = Total(count);
  if (finite == 0) return {0, 0};
  const double mean = Total(sum) / finite;
  std::array<double, kLanes> squares = {};
  for (size_t i = 0; i < values.size(); ++i) {
    const double distance = IsFinite(values[i]) ? double{values[i]} - mean : 0;
    squares[i % kLanes] += distance * distance;
  }
  const double variance = Total(squares) / finite;
  return {static_cast<float>(mean),
          variance > 0 ? static_cast<float>(1 / std::sqrt(variance)) : 0.0F};
}

}  // namespace

void Agreement::Add(absl::Span<const float> layer) {
  if (sums_.empty()) sums_.resize(layer.size());
  FOLIO_CHECK(sums_.size() == layer.size() && begin_ <= end_ && end_ <= layer.size());
  const auto [mean, inverse] = ScaleOf(layer.subspan(begin_, end_ - begin_));
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (size_t i = begin_; i < end_; ++i) {
    const float value = layer[i];
    const float sum = sums_[i] + (IsFinite(value) ? (value - mean) * inverse : value);
    // Infinities of both signs make NaN.
    sums_[i] = std::isnan(sum) ? kLowest : sum;
  }
}

std::vector<float> Agreed(LayerGroup layers, size_t begin, size_t end,
                          absl::FunctionRef<std::vector<float>(const LayerScores&)> numbers) {
  FOLIO_CHECK(!layers.empty());
  if (layers.size() == 1) return numbers(layers[0]);
  Agreement agreement(begin, end);
  for (const LayerScores& layer : layers) agreement.Add(numbers(layer));
  return std::move(agreement).Take();
}

}  // namespace folio::policy
