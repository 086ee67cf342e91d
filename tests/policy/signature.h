// Signatures holds one bit per KV head and token for each item of a range of tokens. This header is
// the arithmetic of KVCrush, which picks representatives by comparing such signatures. Its
// functions are pure and may be called from any thread.
#ifndef FOLIO_TESTS_POLICY_SIGNATURE_H_
#define FOLIO_TESTS_POLICY_SIGNATURE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tests/policy/head_order.h"

namespace folio::policy {

// All signatures have the same length. A bit takes a byte, so that columns are summed and
// signatures compared by plain loops, which the compiler vectorises.
class Signatures {
 public:
  Signatures(uint32_t count, uint32_t bits)
      : count_(count), bits_(bits), bytes_(size_t{count} * bits) {}

  uint32_t count() const { return count_; }
  uint32_t bits() const { return bits_; }

  void Set(uint32_t item, uint32_t bit) { bytes_[size_t{item} * bits_ + bit] = 1; }
  bool Get(uint32_t item, uint32_t bit) const { return bytes_[size_t{item} * bits_ + bit] != 0; }
  // One item's bits, each as 0 or 1.
  absl::Span<const uint8_t> row(uint32_t item) const {
    return {bytes_.data() + size_t{item} * bits_, bits_};
  }
  absl::Span<uint8_t> row(uint32_t item) { return {bytes_.data() + size_t{item} * bits_, bits_}; }
  // The number of bits in which `item` and item `other_item` of `other` differ. Both must have the
  // same length.
  uint32_t Distance(uint32_t item, const Signatures& other, uint32_t other_item = 0) const;

 private:
  uint32_t count_;
  uint32_t bits_;
  std::vector<uint8_t> bytes_;
};

// ItemRange is a range of tokens cut into items of `item_tokens` each. Only `items` (by index, in
// this order) are looked at.
struct ItemRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t item_tokens = 1;
  absl::Span<const uint32_t> items = {};
};

// The signatures of the items. Bit h * item_tokens + t says whether head h ranks the item's token t
// in the upper half of the range.
Signatures RankSignatures(HeadOrder& order, const ItemRange& range);

// Entries floor(i * (n - 1) / (wanted - 1)) of `sorted` for i = 0 .. wanted - 1, or the first entry
// if one is wanted. `wanted` <= n = sorted.size().
std::vector<uint32_t> EvenlySpaced(const std::vector<uint32_t>& sorted, uint32_t wanted);

}  // namespace folio::policy

#endif  // FOLIO_TESTS_POLICY_SIGNATURE_H_
