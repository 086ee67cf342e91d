#include "services/worker/engine/prompt_cost.h"

#include <algorithm>
#include <cmath>

namespace folio::worker {
namespace {

// A step may be slow because of something else, but never fast. So a lower cost is believed at
// once, and a higher one slowly.
constexpr double kLower = 0.7, kHigher = 0.3, kMostAtOnce = 4;
// The line takes no step for more than so many times what was expected, since one that was held up
// would tilt it.
constexpr double kMostOfLine = 2;

// The line through the last steps forgets so much with each one. It remembers those of a long
// prompt.
constexpr double kForgotten = 0.03;
// A line is believed with the weight of six steps, and with contexts that differ by so many tokens.
constexpr double kEnoughSteps = 5.5, kEnoughSpread = 256;
// Attention costs a token at most as much as all else where the context has so many tokens.
constexpr double kLeastDoubling = 512;

}  // namespace

double PromptRoom::Weight(uint32_t tokens, uint32_t context) const {
  return tokens * (1 + growth * (context + tokens / 2.0));
}

uint32_t PromptRoom::Tokens(uint32_t asked, uint32_t context) const {
  // The greatest n with Weight(n) <= weight, which is a root of growth / 2 * n^2 + first * n.
  const double first = 1 + growth * context;
  const double left = std::max(weight, 0.0);
  const double n = 2 * left / (first + std::sqrt(first * first + 2 * growth * left));
  const auto fits = static_cast<uint32_t>(std::min(n, static_cast<double>(most)));
  if (asked <= fits) return asked;
  return std::min({std::max(fits / multiple * multiple, least), most, asked});
}

void PromptRoom::Take(uint32_t tokens, uint32_t context) {
  weight -= Weight(tokens, context);
  most -= std::min(most, tokens);
  least = 0;
}

PromptRoom PromptRoom::TakeHalf(uint32_t tokens, uint32_t context) {
  PromptRoom taken = *this;
  taken.weight = std::min(std::ceil(weight / 2), Weight(tokens, context));
  taken.most = std::min((most + 1) / 2, tokens);
  taken.least = least / 2;
  weight -= taken.weight;
  most -= taken.most;
  least -= taken.least;
  return taken;
}

void PromptRoom::PutBack(const PromptRoom& taken) {
  weight += taken.weight;
  most += taken.most;
  least += taken.least;
}

void PromptCost::Line::Add(double context, double seconds) {
  for (double* sum : {&count, &x, &xx, &y, &xy}) *sum *= 1 - kForgotten;
  count += 1;
  x += context;
  xx += context * context;
  y += seconds;
  xy += context * seconds;
}

void PromptCost::Add(uint32_t tokens, double context, double seconds, bool long_enough) {
  const double each = seconds / tokens;
  if (!known()) {
    if (!long_enough) return;
    seconds_at_start_ = each;
    line_.Add(context, each);
    return;
  }
  const double expected = Seconds(1, context);
  if (!long_enough && each > expected) return;
  if (long_enough) {
    line_.Add(context, std::min(each, kMostOfLine * expected));
    LearnGrowth();
  }
  const double at_start = std::min(each, kMostAtOnce * expected) / (1 + growth_ * context);
  const double weight = at_start < seconds_at_start_ ? kLower : kHigher;
  seconds_at_start_ += weight * (at_start - seconds_at_start_);
}

void PromptCost::LearnGrowth() {
  const double mean = line_.x / line_.count;
  const double variance = line_.xx / line_.count - mean * mean;
  if (line_.count < kEnoughSteps || variance < kEnoughSpread * kEnoughSpread) return;
  const double slope = (line_.xy / line_.count - mean * line_.y / line_.count) / variance;
  const double at_start = line_.y / line_.count - slope * mean;
  if (slope <= 0) {
    growth_ = 0;
  } else {
    growth_ = std::min(slope / std::max(at_start, slope * kLeastDoubling), 1 / kLeastDoubling);
  }
}

}  // namespace folio::worker
