#include "services/policy/head_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "services/common/check.h"

namespace folio::policy {
namespace {

using Keys = absl::Span<const int32_t>;

// The passes over keys that the search is made of: all its time. Inlined into functions for wider
// vectors than the build's, of the same result.
struct Passes {
  [[gnu::always_inline]] static uint32_t Above(Keys keys, int32_t at) {
    uint32_t above = 0;
    for (const int32_t key : keys) above += key > at ? 1 : 0;
    return above;
  }
  // The lowest key above `at`; there must be one. Differences, unsigned, make one loop of minima of
  // a search among some of the keys: those of the others wrap to more.
  [[gnu::always_inline]] static int32_t Next(Keys keys, int32_t at) {
    const uint32_t from = static_cast<uint32_t>(at) + 1;
    uint32_t least = UINT32_MAX;
    for (const int32_t key : keys) least = std::min(least, static_cast<uint32_t>(key) - from);
    return static_cast<int32_t>(from + least);
  }
  // The highest key that is not above `at`; there must be one.
  [[gnu::always_inline]] static int32_t NotAbove(Keys keys, int32_t at) {
    const auto from = static_cast<uint32_t>(at);
    uint32_t least = UINT32_MAX;
    for (const int32_t key : keys) least = std::min(least, from - static_cast<uint32_t>(key));
    return static_cast<int32_t>(from - least);
  }
};

#if defined(__x86_64__)
#define FOLIO_WIDE [[gnu::target("avx2")]]
bool Wide() { return __builtin_cpu_supports("avx2") != 0; }
#else
#define FOLIO_WIDE
bool Wide() { return false; }
#endif

FOLIO_WIDE uint32_t WideAbove(Keys keys, int32_t at) { return Passes::Above(keys, at); }
FOLIO_WIDE int32_t WideNext(Keys keys, int32_t at) { return Passes::Next(keys, at); }
FOLIO_WIDE int32_t WideNotAbove(Keys keys, int32_t at) { return Passes::NotAbove(keys, at); }

uint32_t CountAbove(Keys keys, int32_t at) {
  return Wide() ? WideAbove(keys, at) : Passes::Above(keys, at);
}
int32_t NextAbove(Keys keys, int32_t at) {
  return Wide() ? WideNext(keys, at) : Passes::Next(keys, at);
}
int32_t NotAbove(Keys keys, int32_t at) {
  return Wide() ? WideNotAbove(keys, at) : Passes::NotAbove(keys, at);
}

// Of the keys equal to `least` the newest `wanted` are in.
uint32_t TiesFrom(Keys keys, int32_t least, uint32_t wanted) {
  auto at = static_cast<uint32_t>(keys.size());
  while (wanted > 0) wanted -= keys[--at] == least ? 1 : 0;
  return at;
}

// As if the keys were normally distributed: the mean, and the density there.
RankGuess FirstGuess(Keys keys) {
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

Highest FindHighest(Keys keys, uint32_t wanted, RankGuess& guess) {
  FOLIO_CHECK(wanted <= keys.size());
  if (wanted == 0) return {INT32_MAX, static_cast<uint32_t>(keys.size())};
  if (!guess.made) guess = FirstGuess(keys);

  // By the density near the last answer; should that lead nowhere, by halves.
  constexpr int kGuesses = 12;
  constexpr uint32_t kFar = 16;  // ranks from which the density can be told
  // Above `low` are `wanted` or more, above `high` fewer.
  int64_t low = INT32_MIN;
  int64_t high = INT32_MAX;
  int64_t above_high = 0;
  int64_t at = guess.key;
  int64_t last = at;
  int64_t last_above = 0;
  for (int tries = 0; high - low > 1; ++tries) {
    if (at <= low || at >= high || tries > kGuesses) at = low + (high - low) / 2;
    const int64_t above = CountAbove(keys, static_cast<int32_t>(at));
    if (above == wanted) {
      guess.key = NextAbove(keys, static_cast<int32_t>(at));
      return {guess.key, 0};
    }
    if (above + 1 == wanted) {
      high = NotAbove(keys, static_cast<int32_t>(at));
      above_high = above;
      break;
    }
    if (above > wanted) {
      low = at;
    } else {
      high = at;
      above_high = above;
    }
    if (tries > 0 && std::abs(last_above - above) >= kFar) {
      guess.keys_per_rank =
          std::max(1.0, static_cast<double>(at - last) / static_cast<double>(last_above - above));
    }
    last = at;
    last_above = above;
    at += static_cast<int64_t>(static_cast<double>(above - wanted) * guess.keys_per_rank);
  }
  guess.key = static_cast<int32_t>(high);
  // All that are equal to it, or the newest of them.
  if (CountAbove(keys, guess.key - 1) == wanted) return {guess.key, 0};
  return {guess.key, TiesFrom(keys, guess.key, wanted - static_cast<uint32_t>(above_high))};
}

void HeadRanks::Append(const LayerScores& scores, uint32_t begin, uint32_t end) {
  const uint32_t kv_heads = scores.kv_heads;
  const uint32_t page_tokens = scores.page_tokens;
  const uint32_t scored = std::clamp(scores.scored.value(), begin, end);
  heads_.resize(kv_heads);
  const size_t held = heads_[0].keys.size();
  const int32_t lowest = RankKey(-std::numeric_limits<float>::infinity());
  for (Head& head : heads_) head.keys.resize(held + (end - begin), lowest);
  for (uint32_t slot = begin; slot < scored;) {
    const uint32_t offset = slot % page_tokens;
    const uint32_t count = std::min(page_tokens - offset, scored - slot);
    const float* rows = &scores.pages[slot / page_tokens][size_t{offset} * kv_heads];
    for (uint32_t h = 0; h < kv_heads; ++h) {
      int32_t* keys = &heads_[h].keys[held + (slot - begin)];
      for (uint32_t i = 0; i < count; ++i) keys[i] = RankKey(rows[size_t{i} * kv_heads + h]);
    }
    slot += count;
  }
}

void HeadRanks::Erase(uint32_t begin, uint32_t end) {
  for (Head& head : heads_) head.keys.erase(head.keys.begin() + begin, head.keys.begin() + end);
}

void HeadRanks::Clear() {
  for (Head& head : heads_) head.keys.clear();
}

Highest HeadRanks::FindUpperHalf(uint32_t head, uint32_t begin, uint32_t end) {
  const Keys keys = Keys(heads_[head].keys).subspan(begin, end - begin);
  return FindHighest(keys, (end - begin) / 2, heads_[head].guess);
}

}  // namespace folio::policy
