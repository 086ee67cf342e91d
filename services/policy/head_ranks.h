// Where the tokens of a layer stand with each KV head: who is in the upper half of a range of them.
//
// Scores are held as integers of the same order, contiguous by head, so that finding the middle of
// a thousand of them is a few passes of counting, which the compiler vectorises, and no selection
// among values in random order. Thread-compatible.
#ifndef FOLIO_SERVICES_POLICY_HEAD_RANKS_H_
#define FOLIO_SERVICES_POLICY_HEAD_RANKS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "services/policy/policy.h"

namespace folio::policy {

// An integer that is ordered as scores are: NaN is lowest together with -inf, zeros are equal.
inline int32_t RankKey(float score) {
  // The sum makes one zero of two.
  const float value = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score + 0.0F;
  const auto bits = std::bit_cast<int32_t>(value);
  return bits ^ ((bits >> 31) & INT32_MAX);
}

// The highest of a list of keys: those above `least`, and of those equal to it the ones from index
// `ties_from` on.
struct Highest {
  int32_t least = INT32_MAX;
  uint32_t ties_from = 0;

  bool Holds(int32_t key, uint32_t index) const {
    return key > least || (key == least && index >= ties_from);
  }
};

// Where a search among keys begins. It ends with the same answer wherever it began, but soon when
// it began near it.
struct RankGuess {
  bool made = false;
  int32_t key = 0;
  double keys_per_rank = 1;  // near `key`, at least 1
};

// The `wanted` highest of the keys, ties to the newer; `wanted` <= keys.size(). Leaves the answer
// in `guess` for the next search among much the same keys.
Highest FindHighest(absl::Span<const int32_t> keys, uint32_t wanted, RankGuess& guess);

class HeadRanks {
 public:
  // Tokens of slots [begin, end) behind those that are held. Those without a row on the board rank
  // lowest.
  void Append(const LayerScores& scores, uint32_t begin, uint32_t end);
  // Takes tokens [begin, end) out.
  void Erase(uint32_t begin, uint32_t end);
  void Clear();

  uint32_t heads() const { return static_cast<uint32_t>(heads_.size()); }
  // RankKey of each token.
  absl::Span<const int32_t> keys(uint32_t head) const { return heads_[head].keys; }

  // The upper floor(n / 2) of the tokens [begin, end), ties to the newer. Remembers the guess, over
  // Clear too.
  Highest FindUpperHalf(uint32_t head, uint32_t begin, uint32_t end);

 private:
  struct Head {
    std::vector<int32_t> keys;
    RankGuess guess;
  };
  std::vector<Head> heads_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_HEAD_RANKS_H_
