#include "tests/policy/signature.h"

#include "services/base/check.h"

namespace folio::policy {
namespace {

void MarkFrom(const int32_t* keys, uint32_t count, int32_t threshold, uint8_t* bits) {
  for (uint32_t i = 0; i < count; ++i) bits[i] = keys[i] >= threshold ? 1 : 0;
}

}  // namespace

uint32_t Signatures::Distance(uint32_t item, const Signatures& other, uint32_t other_item) const {
  FOLIO_DCHECK(other.bits_ == bits_);
  const absl::Span<const uint8_t> own = row(item);
  const absl::Span<const uint8_t> theirs = other.row(other_item);
  uint32_t distance = 0;
  for (uint32_t bit = 0; bit < bits_; ++bit) distance += own[bit] ^ theirs[bit];
  return distance;
}

Signatures RankSignatures(HeadOrder& order, const ItemRange& range) {
  FOLIO_CHECK((range.end - range.begin) % range.item_tokens == 0);
  const uint32_t tokens = range.item_tokens;
  const auto count = static_cast<uint32_t>(range.items.size());
  Signatures signatures(count, tokens * order.heads());
  for (uint32_t head = 0; head < order.heads(); ++head) {
    const Highest upper = order.FindUpperHalf(head, range.begin, range.end);
    const int32_t* keys = order.keys(head).data() + range.begin;
    for (uint32_t item = 0; item < count; ++item) {
      const uint32_t first = range.items[item] * tokens;
      uint8_t* bits = signatures.row(item).data() + size_t{head} * tokens;
      if (upper.ties_from == 0) {
        MarkFrom(keys + first, tokens, upper.threshold, bits);
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
