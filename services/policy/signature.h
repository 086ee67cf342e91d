// One bit per KV head and token, and who represents whom by it: the arithmetic of KVCrush. Pure
// functions; any thread.
#ifndef FOLIO_SERVICES_POLICY_SIGNATURE_H_
#define FOLIO_SERVICES_POLICY_SIGNATURE_H_

#include <cstdint>
#include <vector>

#include "services/policy/policy.h"

namespace folio::policy {

// Signatures of equal length, packed into words: item i's bits are words [i * stride, (i+1) *
// stride), bit b in word b / 64.
class Signatures {
 public:
  Signatures(uint32_t count, uint32_t bits);

  uint32_t count() const { return count_; }
  uint32_t bits() const { return bits_; }

  void Set(uint32_t item, uint32_t bit) { words_[Word(item, bit)] |= uint64_t{1} << (bit % 64); }
  bool Get(uint32_t item, uint32_t bit) const {
    return (words_[Word(item, bit)] >> (bit % 64) & 1) != 0;
  }
  // Bits in which `item` and item `other_item` of `other` (of equal length) differ.
  uint32_t Distance(uint32_t item, const Signatures& other, uint32_t other_item = 0) const;

 private:
  size_t Word(uint32_t item, uint32_t bit) const { return size_t{item} * stride_ + bit / 64; }

  uint32_t count_;
  uint32_t bits_;
  uint32_t stride_;
  std::vector<uint64_t> words_;
};

// Signatures of the items of `item_tokens` tokens each that lie in slots [begin, end): bit
// t * kv_heads + h is token t's rank by head h. Tokens without a row on the
// board and scores that are no number rank lowest. `end - begin` is a multiple of `item_tokens`.
Signatures RankSignatures(const LayerScores& scores, uint32_t begin, uint32_t end,
                          uint32_t item_tokens);

// Entry floor(i * (n - 1) / (wanted - 1)) of the `sorted`, i = 0 .. wanted - 1; the first if one is
// wanted. `wanted` <= sorted.size().
std::vector<uint32_t> EvenlySpaced(const std::vector<uint32_t>& sorted, uint32_t wanted);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_SIGNATURE_H_
