#include "services/worker/engine/chunk_sizes.h"

#include <algorithm>

namespace folio::worker {
namespace {

constexpr uint32_t kFirst = 128;  // a step whose cost is not known yet
// Steps without decodes may take so many times the target.
constexpr double kAlone = 5;
// Decoding that takes longer than the target is slowed down by this at most.
constexpr double kSlower = 1.5;
constexpr double kNewDecode = 0.3;  // the weight of the newest step
constexpr uint32_t kMultiple = 16;  // kernels compute so many rows at once

// Nineteen of twenty steps with prompts beside decodes are to take no longer than the target.
constexpr double kInTime = 0.95;
// The margin grows by kTurn * kInTime with a step that took longer than expected with it, and
// shrinks by kTurn * (1 - kInTime) with one that did not. It comes to rest where as many do.
constexpr double kTurn = 0.05, kMostMargin = 1.6;

// Any number of tokens up to `most`, which weigh the same.
PromptRoom Fixed(uint32_t most) { return {.weight = static_cast<double>(most), .most = most}; }

}  // namespace

void ChunkSizes::Add(const StepSize& size, absl::Duration took) {
  const double seconds = absl::ToDoubleSeconds(took);
  if (seconds <= 0) return;
  if (size.prompt_tokens == 0) {
    if (size.decodes == 0) return;
    decode_ = decode_ == 0 ? seconds : decode_ + kNewDecode * (seconds - decode_);
    return;
  }
  if (size.decodes == 0) {
    alone_.Add(size.prompt_tokens, size.context, seconds, size.prompt_tokens >= kFirst / 2);
    return;
  }
  const double beyond_decoding = std::max(seconds - decode_, seconds / 10);
  const bool long_enough = size.prompt_tokens >= budget_.least;
  // The time of a short chunk says nothing about how steps vary.
  if (beside_.known() && long_enough) {
    const bool late = beyond_decoding > margin_ * beside_.Seconds(size.prompt_tokens, size.context);
    margin_ += kTurn * (late ? kInTime : kInTime - 1);
    margin_ = std::clamp(margin_, 1.0, kMostMargin);
  }
  beside_.Add(size.prompt_tokens, size.context, beyond_decoding, long_enough);
}

PromptRoom ChunkSizes::Choose(uint32_t decodes) const {
  if (decodes == 0) return budget_.fixed_alone ? Fixed(budget_.alone) : Alone();
  if (!budget_.fixed_beside_decodes) return BesideDecodes();
  return Fixed(std::min(budget_.alone, budget_.beside_decodes));
}

PromptRoom ChunkSizes::RoomIn(double seconds, const PromptCost& cost, uint32_t most) const {
  return {.weight = std::max(seconds, 0.0) / cost.seconds_at_start(),
          .growth = cost.growth(),
          .most = most,
          .least = std::min(budget_.least, most),
          .multiple = kMultiple};
}

PromptRoom ChunkSizes::Alone() const {
  if (!alone_.known()) return Fixed(std::min(4 * kFirst, budget_.alone));
  // Reading the weights costs a step about as much as decoding does. A chunk whose arithmetic takes
  // twice that long loses little by it, so chunks are not smaller.
  const double seconds = std::max(kAlone * absl::ToDoubleSeconds(budget_.target_itl), 2 * decode_);
  return RoomIn(seconds, alone_, budget_.alone);
}

PromptRoom ChunkSizes::BesideDecodes() const {
  const uint32_t most = std::min(budget_.alone, budget_.beside_decodes);
  const PromptCost& cost = beside_.known() ? beside_ : alone_;
  if (!cost.known()) return Fixed(std::min(kFirst, most));
  double target = absl::ToDoubleSeconds(budget_.target_itl);
  if (budget_.most_times_decode > 0 && decode_ > 0) {
    target = std::min(target, budget_.most_times_decode * decode_);
  }
  const double seconds = std::max(target, kSlower * decode_) - decode_;
  return RoomIn(seconds / margin_, cost, most);
}

}  // namespace folio::worker
