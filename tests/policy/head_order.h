// HeadOrder holds the scores that each KV head gives to a layer's tokens, and finds the upper half
// of a range of them for each head.
//
// Scores are stored as sort keys, contiguous by head, for FindHighest. Thread-compatible.
#ifndef FOLIO_TESTS_POLICY_HEAD_ORDER_H_
#define FOLIO_TESTS_POLICY_HEAD_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/policy/key_search.h"
#include "services/policy/policy.h"

namespace folio::policy {

class HeadOrder {
 public:
  // Appends the tokens of slots [begin, end). Tokens without a row on the board are lowest.
  void Append(const LayerScores& scores, uint32_t begin, uint32_t end);

  uint32_t heads() const { return static_cast<uint32_t>(heads_.size()); }
  // The SortKey of each token.
  absl::Span<const int32_t> keys(uint32_t head) const { return heads_[head].keys; }

  // The upper floor(n / 2) of the tokens [begin, end). Newer tokens win ties. Remembers its guess
  // for the next call.
  Highest FindUpperHalf(uint32_t head, uint32_t begin, uint32_t end);

 private:
  struct Head {
    std::vector<int32_t> keys;
    SearchGuess guess;
  };
  std::vector<Head> heads_;
};

}  // namespace folio::policy

#endif  // FOLIO_TESTS_POLICY_HEAD_ORDER_H_
