#include "services/policy/signature.h"

#include "services/common/check.h"

namespace folio::policy {
namespace {

void MarkFrom(const int32_t* keys, uint32_t count, int32_t least, uint8_t* bits) {
  for (uint32_t i = 0; i < count; ++i) bits[i] = keys[i] >= least ? 1 : 0;
}

}  // namespace

uint32_t Signatures::Distance(uint32_t item, const Signatures& other, uint32_t other_item) const {
  FOLIO_DCHECK(other.bits_ == bits_);
  const absl::Span<const uint8_t> mine = of(item);
  const absl::Span<const uint8_t> theirs = other.of(other_item);
  uint32_t distance = 0;
  for (uint32_t bit = 0; bit < bits_; ++bit) distance += mine[bit] ^ theirs[bit];
  return distance;
}

Signatures RankSignatures(HeadRanks& ranks, const RankedItems& what) {
  FOLIO_CHECK((what.end - what.begin) % what.item_tokens == 0);
  const uint32_t tokens = what.item_tokens;
  const auto count = static_cast<uint32_t>(what.items.size());
  Signatures signatures(count, tokens * ranks.heads());
  for (uint32_t head = 0; head < ranks.heads(); ++head) {
    const Highest upper = ranks.FindUpperHalf(head, what.begin, what.end);
    const int32_t* keys = ranks.keys(head).data() + what.begin;
    for (uint32_t item = 0; item < count; ++item) {
      const uint32_t first = what.items[item] * tokens;
      uint8_t* bits = signatures.of(item).data() + size_t{head} * tokens;
      if (upper.ties_from == 0) {
        MarkFrom(keys + first, tokens, upper.least, bits);
      } else {
        for (uint32_t t = 0; t < tokens; ++t) bits[t] = upper.Holds(keys[first + t], first + t);
      }
    }
  }
  return signatures;
}

std::vector<uint32_t> EvenlySpaced(const std::vector<uint32_t>& sorted, uint32_t wanted) {
  FOLIO_CHECK(wanted <= sorted.size());
  std::vector<uint32_t> chosen;
  chosen.reserve(wanted);
  const uint64_t last = sorted.size() - 1;
  for (uint64_t i = 0; i < wanted; ++i) {
    chosen.push_back(sorted[wanted == 1 ? 0 : i * last / (wanted - 1)]);
  }
  return chosen;
}

}  // namespace folio::policy
