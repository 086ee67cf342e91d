// One bit per KV head and token, and who represents whom by it: the arithmetic of KVCrush. Pure
// functions; any thread.
#ifndef FOLIO_SERVICES_POLICY_SIGNATURE_H_
#define FOLIO_SERVICES_POLICY_SIGNATURE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/policy/head_ranks.h"

namespace folio::policy {

// Signatures of equal length. A bit takes a byte, so that columns are summed and signatures
// compared by plain loops over them.
class Signatures {
 public:
  Signatures(uint32_t count, uint32_t bits)
      : count_(count), bits_(bits), bytes_(size_t{count} * bits) {}

  uint32_t count() const { return count_; }
  uint32_t bits() const { return bits_; }

  void Set(uint32_t item, uint32_t bit) { bytes_[size_t{item} * bits_ + bit] = 1; }
  bool Get(uint32_t item, uint32_t bit) const { return bytes_[size_t{item} * bits_ + bit] != 0; }
  // Each bit as 0 or 1.
  absl::Span<const uint8_t> of(uint32_t item) const {
    return {bytes_.data() + size_t{item} * bits_, bits_};
  }
  absl::Span<uint8_t> of(uint32_t item) { return {bytes_.data() + size_t{item} * bits_, bits_}; }
  // Bits in which `item` and item `other_item` of `other` (of equal length) differ.
  uint32_t Distance(uint32_t item, const Signatures& other, uint32_t other_item = 0) const;

 private:
  uint32_t count_;
  uint32_t bits_;
  std::vector<uint8_t> bytes_;
};

// A range of tokens cut into items of `item_tokens` each, of which `items` (by index, in this
// order) are looked at.
struct RankedItems {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t item_tokens = 1;
  absl::Span<const uint32_t> items = {};
};

// Signatures of the items: whether head h ranks the item's token t in the upper half of the range
// is bit h * item_tokens + t.
Signatures RankSignatures(HeadRanks& ranks, const RankedItems& what);

// Entry floor(i * (n - 1) / (wanted - 1)) of the `sorted`, i = 0 .. wanted - 1; the first if one is
// wanted. `wanted` <= sorted.size().
std::vector<uint32_t> EvenlySpaced(const std::vector<uint32_t>& sorted, uint32_t wanted);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_SIGNATURE_H_
