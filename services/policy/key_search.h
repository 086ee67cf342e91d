// FindHighest finds the highest of many scores without sorting them. Scores are compared as
// integers of the same order, so that a pass of counting is one loop over a list, which the
// compiler vectorises. Finding the middle of a thousand of them takes a few passes, and no
// selection among values in random order. The functions are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_POLICY_KEY_SEARCH_H_
#define FOLIO_SERVICES_POLICY_KEY_SEARCH_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace folio::policy {

// An integer that is ordered as scores are. NaN and -inf are lowest, and both zeros are equal. It
// is computed from bits alone, because the compiler vectorises no comparison of floats.
inline int32_t SortKey(float score) {
  constexpr int32_t kInfinity = 0x7F800000;
  const auto bits = std::bit_cast<int32_t>(score);
  const int32_t magnitude = bits & INT32_MAX;
  // Negative scores are in reverse order, and -0 comes out as -1.
  int32_t key = bits ^ ((bits >> 31) & INT32_MAX);
  key += key == -1 ? 1 : 0;
  return magnitude > kInfinity ? ~kInfinity : key;
}
// The SortKey of each.
std::vector<int32_t> SortKeys(absl::Span<const float> scores);

// The index of the lowest score, of equal ones the first. There must be one.
uint32_t OldestLowest(absl::Span<const float> scores);

// Bit i says whether keys[i] is above `bound`. There are at most 64 keys.
uint64_t AboveMask(absl::Span<const int32_t> keys, int32_t bound);

// The same for two bounds.
struct TwoMasks {
  uint64_t low = 0;
  uint64_t high = 0;
};
TwoMasks AboveMasks(absl::Span<const int32_t> keys, int32_t low, int32_t high);

// Highest names the highest keys of a list: all above `threshold`, and the keys equal to it from
// index `ties_from` on.
struct Highest {
  int32_t threshold = INT32_MAX;
  uint32_t ties_from = 0;

  bool Holds(int32_t key, uint32_t index) const {
    return key > threshold || (key == threshold && index >= ties_from);
  }
};

// SearchGuess is where a search among keys begins. The answer does not depend on it, but a search
// that begins near the answer ends sooner.
struct SearchGuess {
  bool made = false;
  int32_t key = 0;
  double keys_per_rank = 1;  // near `key`, at least 1
};

// Finds the `wanted` highest keys. Newer keys win ties. `wanted` <= keys.size(). Leaves the answer
// in `guess` for the next search among much the same keys.
Highest FindHighest(absl::Span<const int32_t> keys, uint32_t wanted, SearchGuess& guess);

// The keys that `highest` holds, or the others, as bits: bit i % 64 of word i / 64 is key i. Bits
// behind the last key are 0.
std::vector<uint64_t> MaskOf(absl::Span<const int32_t> keys, const Highest& highest, bool held);

// The same for the `wanted` highest of scores. Newer scores win ties.
std::vector<uint64_t> MaskOfHighest(absl::Span<const float> scores, uint32_t wanted, bool held);

// Calls `use(i)` for each bit i that is set, ascending.
template <typename Use>
void ForEachBit(absl::Span<const uint64_t> words, Use use) {
  for (size_t word = 0; word < words.size(); ++word) {
    for (uint64_t left = words[word]; left != 0; left &= left - 1) {
      use(static_cast<uint32_t>(word * 64) + std::countr_zero(left));
    }
  }
}

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_KEY_SEARCH_H_
