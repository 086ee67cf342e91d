#include "services/policy/random.h"

#include "services/base/split_mix.h"

namespace folio::policy {
namespace {

// 24 bits, so that every value is a float and no two of them round together.
float Uniform(SplitMix64& stream) { return static_cast<float>(stream.Next() >> 40) * 0x1p-24F; }

std::vector<float> Draw(SplitMix64 stream, size_t count) {
  std::vector<float> drawn(count);
  for (float& value : drawn) value = Uniform(stream);
  return drawn;
}

}  // namespace

std::vector<float> Random::TokenScores(const LayerScores& scores) const {
  // Slots of tokens that went were taken by others. Without the length, which differs at every
  // decision, these would get the numbers that kept their predecessors.
  if (scores.tokens < scores.logical_length) {
    return Draw(SplitMix64::Of({seed_, scores.layer.value(), scores.logical_length.value()}),
                scores.tokens.value());
  }
  return Draw(SplitMix64::Of({seed_, scores.layer.value()}), scores.tokens.value());
}

std::vector<float> Random::BlockScores(const LayerScores& scores) const {
  return Draw(SplitMix64::Of({seed_, scores.layer.value(), scores.logical_length.value()}),
              scores.tokens.value() / scores.page_tokens);
}

}  // namespace folio::policy
