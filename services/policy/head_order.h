// HeadOrder holds the scores that each KV head gives to a layer's tokens, and finds the upper half
// of a range of them for each head.
//
// Scores are stored as integers of the same order, contiguous by head. Finding the middle of a
// thousand of them then takes a few passes of counting, which the compiler vectorises, and no
// selection among values in random order. Thread-compatible.
#ifndef FOLIO_SERVICES_POLICY_HEAD_ORDER_H_
#define FOLIO_SERVICES_POLICY_HEAD_ORDER_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "services/policy/policy.h"

namespace folio::policy {

// An integer that is ordered as scores are. NaN and -inf are lowest, and both zeros are equal.
inline int32_t SortKey(float score) {
  // The sum turns -0 into +0.
  const float value = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score + 0.0F;
  const auto bits = std::bit_cast<int32_t>(value);
  return bits ^ ((bits >> 31) & INT32_MAX);
}

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

class HeadOrder {
 public:
  // Appends the tokens of slots [begin, end). Tokens without a row on the board are lowest.
  void Append(const LayerScores& scores, uint32_t begin, uint32_t end);
  // Removes the tokens [begin, end).
  void Erase(uint32_t begin, uint32_t end);
  void Clear();

  uint32_t heads() const { return static_cast<uint32_t>(heads_.size()); }
  // The SortKey of each token.
  absl::Span<const int32_t> keys(uint32_t head) const { return heads_[head].keys; }

  // The upper floor(n / 2) of the tokens [begin, end). Newer tokens win ties. Remembers its guess
  // for the next call, even across Clear.
  Highest FindUpperHalf(uint32_t head, uint32_t begin, uint32_t end);

 private:
  struct Head {
    std::vector<int32_t> keys;
    SearchGuess guess;
  };
  std::vector<Head> heads_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_HEAD_ORDER_H_
