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

// As many tokens of that cost as take `seconds`, in whole groups of kLeast.
uint32_t TokensIn(double seconds, double cost, uint32_t most) {
  const double tokens = std::clamp(seconds / cost, 0.0, static_cast<double>(most));
  const uint32_t whole = static_cast<uint32_t>(tokens) / ChunkSizes::kLeast * ChunkSizes::kLeast;
  return std::max(whole, std::min(ChunkSizes::kLeast, most));
}

}  // namespace

// A step may be slow because of something else, but never fast. So a lower cost is believed at
// once, and a higher one slowly. The time of a short chunk is mostly that of reading the weights,
// so its cost only shows that longer ones cost no more.
void ChunkSizes::Cost::Add(double sample, bool long_enough) {
  constexpr double kLower = 0.7, kHigher = 0.3, kMostAtOnce = 4;
  if (seconds == 0) {
    seconds = long_enough ? sample : 0;
    return;
  }
  if (!long_enough && sample > seconds) return;
  const double weight = sample < seconds ? kLower : kHigher;
  seconds += weight * (std::min(sample, kMostAtOnce * seconds) - seconds);
}

void ChunkSizes::Add(const StepSize& size, absl::Duration took) {
  const double seconds = absl::ToDoubleSeconds(took);
  if (seconds <= 0) return;
  if (size.prompt_tokens == 0) {
    if (size.decodes == 0) return;
    decode_ = decode_ == 0 ? seconds : decode_ + kNewDecode * (seconds - decode_);
    return;
  }
  if (size.decodes == 0) {
    alone_.Add(seconds / size.prompt_tokens, size.prompt_tokens >= kFirst / 2);
    return;
  }
  const double beyond_decoding = std::max(seconds - decode_, seconds / 10);
  beside_.Add(beyond_decoding / size.prompt_tokens, size.prompt_tokens >= kLeast);
}

uint32_t ChunkSizes::Choose(uint32_t decodes) const {
  if (decodes == 0) return budget_.fixed_alone ? budget_.alone : Alone();
  return std::min(budget_.alone,
                  budget_.fixed_beside_decodes ? budget_.beside_decodes : BesideDecodes());
}

uint32_t ChunkSizes::Alone() const {
  if (alone_.seconds == 0) return std::min(4 * kFirst, budget_.alone);
  // Reading the weights costs a step about as much as decoding does. A chunk whose arithmetic takes
  // twice that long loses little by it, so chunks are not smaller.
  const double seconds = std::max(kAlone * absl::ToDoubleSeconds(budget_.target_itl), 2 * decode_);
  return TokensIn(seconds, alone_.seconds, budget_.alone);
}

uint32_t ChunkSizes::BesideDecodes() const {
  const double cost = beside_.seconds != 0 ? beside_.seconds : alone_.seconds;
  if (cost == 0) return std::min(kFirst, budget_.beside_decodes);
  double target = absl::ToDoubleSeconds(budget_.target_itl);
  if (budget_.most_times_decode > 0 && decode_ > 0) {
    target = std::min(target, budget_.most_times_decode * decode_);
  }
  return TokensIn(std::max(target, kSlower * decode_) - decode_, cost, budget_.beside_decodes);
}

}  // namespace folio::worker
