#include "services/policy/key_search.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>

#include "services/base/check.h"
#include "services/policy/wide.h"

namespace folio::policy {
namespace {

using Keys = absl::Span<const int32_t>;

// The search spends all its time in these passes over keys. They are inlined into functions for
// wider vectors than the build's, with the same results.
struct Passes {
  [[gnu::always_inline]] static uint32_t Above(Keys keys, int32_t bound) {
    uint32_t above = 0;
    // Several counts at a time, since one alone would wait for itself.
    constexpr size_t kTile = 32;
    const size_t tiles = keys.size() / kTile;
    if (tiles > 0) {
      uint32_t counts[kTile] = {};
      for (size_t tile = 0; tile < tiles; ++tile) {
        const int32_t* some = &keys[tile * kTile];
        for (size_t i = 0; i < kTile; ++i) counts[i] += some[i] > bound ? 1 : 0;
      }
      for (const uint32_t count : counts) above += count;
    }
    for (const int32_t key : keys.subspan(tiles * kTile)) above += key > bound ? 1 : 0;
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
  [[gnu::always_inline]] static int64_t Sum(Keys keys) {
    int64_t sum = 0;
    for (const int32_t key : keys) sum += key;
    return sum;
  }
  [[gnu::always_inline]] static int64_t Deviations(Keys keys, int32_t mean) {
    int64_t sum = 0;
    for (const int32_t key : keys) sum += std::abs(int64_t{key} - mean);
    return sum;
  }
  [[gnu::always_inline]] static int32_t LowestKey(absl::Span<const float> scores) {
    int32_t lowest = INT32_MAX;
    for (const float score : scores) lowest = std::min(lowest, SortKey(score));
    return lowest;
  }
  [[gnu::always_inline]] static void ToKeys(absl::Span<const float> scores, int32_t* keys) {
    for (size_t i = 0; i < scores.size(); ++i) keys[i] = SortKey(scores[i]);
  }
};

FOLIO_WIDE uint32_t WideAbove(Keys keys, int32_t bound) { return Passes::Above(keys, bound); }
FOLIO_WIDE int32_t WideNext(Keys keys, int32_t bound) { return Passes::Next(keys, bound); }
FOLIO_WIDE int32_t WideNotAbove(Keys keys, int32_t bound) { return Passes::NotAbove(keys, bound); }
FOLIO_WIDE int64_t WideSum(Keys keys) { return Passes::Sum(keys); }
FOLIO_WIDE int64_t WideDeviations(Keys keys, int32_t mean) {
  return Passes::Deviations(keys, mean);
}
FOLIO_WIDE int32_t WideLowestKey(absl::Span<const float> scores) {
  return Passes::LowestKey(scores);
}
FOLIO_WIDE void WideToKeys(absl::Span<const float> scores, int32_t* keys) {
  Passes::ToKeys(scores, keys);
}

uint32_t CountAbove(Keys keys, int32_t bound) {
  return Wide() ? WideAbove(keys, bound) : Passes::Above(keys, bound);
}
int32_t NextAbove(Keys keys, int32_t bound) {
  return Wide() ? WideNext(keys, bound) : Passes::Next(keys, bound);
}
int32_t NotAbove(Keys keys, int32_t bound) {
  return Wide() ? WideNotAbove(keys, bound) : Passes::NotAbove(keys, bound);
}

constexpr size_t kMaskBits = 64;
constexpr size_t kKeyLanes = 8;  // keys of a wide vector
uint64_t PlainAboveMask(Keys keys, int32_t bound) {
  uint64_t mask = 0;
  for (size_t i = 0; i < keys.size(); ++i) mask |= uint64_t{keys[i] > bound ? 1U : 0U} << i;
  return mask;
}
#if defined(__x86_64__)
FOLIO_WIDE uint64_t WideAboveMask(Keys keys, int32_t bound) {
  const __m256i bounds = _mm256_set1_epi32(bound);
  uint64_t mask = 0;
  for (size_t i = 0; i < keys.size(); i += kKeyLanes) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&keys[i]));
    const __m256 above = _mm256_castsi256_ps(_mm256_cmpgt_epi32(some, bounds));
    mask |= uint64_t{static_cast<uint32_t>(_mm256_movemask_ps(above))} << i;
  }
  return mask;
}
FOLIO_WIDE TwoMasks WideAboveMasks(Keys keys, int32_t low, int32_t high) {
  const __m256i lows = _mm256_set1_epi32(low);
  const __m256i highs = _mm256_set1_epi32(high);
  TwoMasks masks;
  for (size_t i = 0; i < keys.size(); i += kKeyLanes) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&keys[i]));
    const __m256 above_low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(some, lows));
    const __m256 above_high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(some, highs));
    masks.low |= uint64_t{static_cast<uint32_t>(_mm256_movemask_ps(above_low))} << i;
    masks.high |= uint64_t{static_cast<uint32_t>(_mm256_movemask_ps(above_high))} << i;
  }
  return masks;
}
#else
uint64_t WideAboveMask(Keys keys, int32_t bound) { return PlainAboveMask(keys, bound); }
TwoMasks WideAboveMasks(Keys keys, int32_t low, int32_t high) {
  return {PlainAboveMask(keys, low), PlainAboveMask(keys, high)};
}
#endif

// The index from which on `wanted` keys equal `threshold`.
uint32_t TiesFrom(Keys keys, int32_t threshold, uint32_t wanted) {
  auto index = static_cast<uint32_t>(keys.size());
  while (wanted > 0) wanted -= keys[--index] == threshold ? 1 : 0;
  return index;
}

// The rank that is wanted and the density near it, among some keys of a long list.
SearchGuess GuessFromSample(Keys keys, uint32_t wanted) {
  constexpr size_t kSample = 128, kNear = 8;
  const size_t stride = keys.size() / kSample;
  std::array<int32_t, kSample> sample;
  for (size_t i = 0; i < kSample; ++i) sample[i] = keys[i * stride];
  const size_t rank = std::min(kSample - 1, (keys.size() - wanted) * kSample / keys.size());
  const size_t below = rank - std::min(rank, kNear);
  const size_t above = std::min(rank + kNear, kSample - 1);
  std::nth_element(sample.begin(), sample.begin() + below, sample.end());
  std::nth_element(sample.begin() + below, sample.begin() + rank, sample.end());
  std::nth_element(sample.begin() + rank, sample.begin() + above, sample.end());
  const double apart = static_cast<double>(sample[above]) - sample[below];
  return {true, sample[rank], std::max(1.0, apart / static_cast<double>((above - below) * stride))};
}

// The mean, and the density there if the keys were normally distributed.
SearchGuess FirstGuess(Keys keys, uint32_t wanted) {
  constexpr size_t kLong = 1024;
  if (keys.size() >= kLong) return GuessFromSample(keys, wanted);
  const auto count = static_cast<double>(keys.size());
  const int64_t sum = Wide() ? WideSum(keys) : Passes::Sum(keys);
  const auto mean = static_cast<int32_t>(sum / static_cast<int64_t>(keys.size()));
  const int64_t deviations = Wide() ? WideDeviations(keys, mean) : Passes::Deviations(keys, mean);
  constexpr double kPi = 3.14;
  return {true, mean, std::max(1.0, kPi * static_cast<double>(deviations) / (count * count))};
}

}  // namespace

std::vector<int32_t> SortKeys(absl::Span<const float> scores) {
  std::vector<int32_t> keys(scores.size());
  Wide() ? WideToKeys(scores, keys.data()) : Passes::ToKeys(scores, keys.data());
  return keys;
}

uint32_t OldestLowest(absl::Span<const float> scores) {
  const int32_t lowest = Wide() ? WideLowestKey(scores) : Passes::LowestKey(scores);
  uint32_t index = 0;
  while (SortKey(scores[index]) != lowest) ++index;
  return index;
}

uint64_t AboveMask(Keys keys, int32_t bound) {
  return Wide() && keys.size() % kKeyLanes == 0 ? WideAboveMask(keys, bound)
                                                : PlainAboveMask(keys, bound);
}

TwoMasks AboveMasks(Keys keys, int32_t low, int32_t high) {
  if (Wide() && keys.size() % kKeyLanes == 0) return WideAboveMasks(keys, low, high);
  return {PlainAboveMask(keys, low), PlainAboveMask(keys, high)};
}

std::vector<uint64_t> MaskOf(Keys keys, const Highest& highest, bool held) {
  std::vector<uint64_t> words((keys.size() + kMaskBits - 1) / kMaskBits);
  const size_t ties_from = std::min<size_t>(highest.ties_from, keys.size());
  for (size_t word = 0; word < words.size(); ++word) {
    const size_t begin = word * kMaskBits;
    const Keys some = keys.subspan(begin, kMaskBits);
    // Before the ties begin, a key equal to the threshold does not belong.
    const size_t strict = ties_from - std::min(ties_from, begin);
    uint64_t mask = strict > 0 ? AboveMask(some, highest.threshold) : 0;
    if (strict < some.size()) {
      mask |= AboveMask(some, highest.threshold - 1) & (~uint64_t{0} << strict);
    }
    words[word] = held ? mask : ~mask & (~uint64_t{0} >> (kMaskBits - some.size()));
  }
  return words;
}

Highest FindHighest(Keys keys, uint32_t wanted, SearchGuess& guess) {
  FOLIO_CHECK(wanted <= keys.size());
  if (wanted == 0) return {INT32_MAX, static_cast<uint32_t>(keys.size())};
  if (!guess.made) guess = FirstGuess(keys, wanted);

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

std::vector<uint64_t> MaskOfHighest(absl::Span<const float> scores, uint32_t wanted, bool held) {
  const std::vector<int32_t> keys = SortKeys(scores);
  SearchGuess guess;
  return MaskOf(keys, FindHighest(keys, wanted, guess), held);
}

}  // namespace folio::policy
