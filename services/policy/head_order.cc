#include "services/policy/head_order.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "services/base/check.h"

namespace folio::policy {
namespace {

using Keys = absl::Span<const int32_t>;

// The search spends all its time in these passes over keys. They are inlined into functions for
// wider vectors than the build's, with the same results.
struct Passes {
  [[gnu::always_inline]] static uint32_t Above(Keys keys, int32_t bound) {
    uint32_t above = 0;
    for (const int32_t key : keys) above += key > bound ? 1 : 0;
    return above;
  }
  // The lowest key above `bound`. There must be one. Unsigned differences make this one loop of
  // minima over all keys, since the differences of lower keys wrap around to large values.
  [[gnu::always_inline]] static int32_t Next(Keys keys, int32_t bound) {
    const uint32_t from = static_cast<uint32_t>(bound) + 1;
    uint32_t nearest = UINT32_MAX;
    for (const int32_t key : keys) nearest = std::min(nearest, static_cast<uint32_t>(key) - from);
    return static_cast<int32_t>(from + nearest);
  }
  // The highest key that is not above `bound`. There must be one.
  [[gnu::always_inline]] static int32_t NotAbove(Keys keys, int32_t bound) {
    const auto from = static_cast<uint32_t>(bound);
    uint32_t nearest = UINT32_MAX;
    for (const int32_t key : keys) nearest = std::min(nearest, from - static_cast<uint32_t>(key));
    return static_cast<int32_t>(from - nearest);
  }
};

#if defined(__x86_64__)
#define FOLIO_WIDE [[gnu::target("avx2")]]
bool Wide() { return __builtin_cpu_supports("avx2") != 0; }
#else
#define FOLIO_WIDE
bool Wide() { return false; }
#endif

FOLIO_WIDE uint32_t WideAbove(Keys keys, int32_t bound) { return Passes::Above(keys, bound); }
FOLIO_WIDE int32_t WideNext(Keys keys, int32_t bound) { return Passes::Next(keys, bound); }
FOLIO_WIDE int32_t WideNotAbove(Keys keys, int32_t bound) { return Passes::NotAbove(keys, bound); }

uint32_t CountAbove(Keys keys, int32_t bound) {
  return Wide() ? WideAbove(keys, bound) : Passes::Above(keys, bound);
}
int32_t NextAbove(Keys keys, int32_t bound) {
  return Wide() ? WideNext(keys, bound) : Passes::Next(keys, bound);
}
int32_t NotAbove(Keys keys, int32_t bound) {
  return Wide() ? WideNotAbove(keys, bound) : Passes::NotAbove(keys, bound);
}

// The index from which on `wanted` keys equal `threshold`.
uint32_t TiesFrom(Keys keys, int32_t threshold, uint32_t wanted) {
  auto index = static_cast<uint32_t>(keys.size());
  while (wanted > 0) wanted -= keys[--index] == threshold ? 1 : 0;
  return index;
}

// The mean, and the density there if the keys were normally distributed.
SearchGuess FirstGuess(Keys keys) {
  const auto count = static_cast<double>(keys.size());
  int64_t sum = 0;
  for (const int32_t key : keys) sum += key;
  const auto mean = static_cast<int32_t>(sum / static_cast<int64_t>(keys.size()));
  int64_t deviations = 0;
  for (const int32_t key : keys) deviations += std::abs(int64_t{key} - mean);
  constexpr double kPi = 3.14;
  return {true, mean, std::max(1.0, kPi * static_cast<double>(deviations) / (count * count))};
}

}  // namespace

Highest FindHighest(Keys keys, uint32_t wanted, SearchGuess& guess) {
  FOLIO_CHECK(wanted <= keys.size());
  if (wanted == 0) return {INT32_MAX, static_cast<uint32_t>(keys.size())};
  if (!guess.made) guess = FirstGuess(keys);

  // Steps by the density near the last answer, and halves the interval if that leads nowhere.
  constexpr int kGuesses = 12;
  constexpr uint32_t kFar = 16;  // ranks over which the density can be estimated
  // `wanted` keys or more are above `low`, fewer are above `high`.
  int64_t low = INT32_MIN;
  int64_t high = INT32_MAX;
  int64_t above_high = 0;
  int64_t pivot = guess.key;
  int64_t last = pivot;
  int64_t last_above = 0;
  for (int tries = 0; high - low > 1; ++tries) {
    if (pivot <= low || pivot >= high || tries > kGuesses) pivot = low + (high - low) / 2;
    const int64_t above = CountAbove(keys, static_cast<int32_t>(pivot));
    if (above == wanted) {
      guess.key = NextAbove(keys, static_cast<int32_t>(pivot));
      return {guess.key, 0};
    }
    if (above + 1 == wanted) {
      high = NotAbove(keys, static_cast<int32_t>(pivot));
      above_high = above;
      break;
    }
    if (above > wanted) {
      low = pivot;
    } else {
      high = pivot;
      above_high = above;
    }
    if (tries > 0 && std::abs(last_above - above) >= kFar) {
      guess.keys_per_rank = std::max(
          1.0, static_cast<double>(pivot - last) / static_cast<double>(last_above - above));
    }
    last = pivot;
    last_above = above;
    pivot += static_cast<int64_t>(static_cast<double>(above - wanted) * guess.keys_per_rank);
  }
  guess.key = static_cast<int32_t>(high);
  // All keys equal to it belong to the answer, or only the newest of them.
  if (CountAbove(keys, guess.key - 1) == wanted) return {guess.key, 0};
  return {guess.key, TiesFrom(keys, guess.key, wanted - static_cast<uint32_t>(above_high))};
}

void HeadOrder::Append(const LayerScores& scores, uint32_t begin, uint32_t end) {
  const uint32_t kv_heads = scores.kv_heads;
  const uint32_t page_tokens = scores.page_tokens;
  const uint32_t scored = std::clamp(scores.scored.value(), begin, end);
  heads_.resize(kv_heads);
  const size_t held = heads_[0].keys.size();
  const int32_t lowest = SortKey(-std::numeric_limits<float>::infinity());
  for (Head& head : heads_) head.keys.resize(held + (end - begin), lowest);
  for (uint32_t slot = begin; slot < scored;) {
    const uint32_t offset = slot % page_tokens;
    const uint32_t count = std::min(page_tokens - offset, scored - slot);
    const float* rows = &scores.pages[slot / page_tokens][size_t{offset} * kv_heads];
    for (uint32_t h = 0; h < kv_heads; ++h) {
      int32_t* keys = &heads_[h].keys[held + (slot - begin)];
      for (uint32_t i = 0; i < count; ++i) keys[i] = SortKey(rows[size_t{i} * kv_heads + h]);
    }
    slot += count;
  }
}

void HeadOrder::Erase(uint32_t begin, uint32_t end) {
  for (Head& head : heads_) head.keys.erase(head.keys.begin() + begin, head.keys.begin() + end);
}

void HeadOrder::Clear() {
  for (Head& head : heads_) head.keys.clear();
}

Highest HeadOrder::FindUpperHalf(uint32_t head, uint32_t begin, uint32_t end) {
  const Keys keys = Keys(heads_[head].keys).subspan(begin, end - begin);
  return FindHighest(keys, (end - begin) / 2, heads_[head].guess);
}

}  // namespace folio::policy
