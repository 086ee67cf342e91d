#include "services/policy/crush_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "services/base/check.h"
#include "services/policy/key_search.h"
#include "services/policy/upper_halves.h"
#include "services/policy/wide.h"

namespace folio::policy {
namespace {

// Room for a layer of a thousand tokens and eight heads, without an allocation.
using BlockBits = absl::InlinedVector<uint64_t, 8>;
using Blocks = absl::InlinedVector<BlockIndex, 64>;

// The bits that more than half of the blocks have. 64 sums are made at a time, whose digits are in
// one word each.
BlockBits Majority(const UpperHalves& halves, const Blocks& blocks) {
  const auto digits = static_cast<uint32_t>(std::bit_width(blocks.size()));
  const uint64_t least = blocks.size() / 2 + 1;
  BlockBits majority(halves.words());
  for (size_t word = 0; word < majority.size(); ++word) {
    // At each digit two carries are added at a time, which is one addition of three bits. Until a
    // second one comes, the first waits.
    absl::InlinedVector<uint64_t, 16> sums(digits + 1);
    absl::InlinedVector<uint64_t, 16> waiting(digits + 1);
    for (size_t i = 0; i < blocks.size(); ++i) {
      uint64_t carry = halves.bits(blocks[i])[word];
      uint32_t digit = 0;
      for (; (i >> digit & 1) != 0; ++digit) {
        const uint64_t sum = sums[digit];
        const uint64_t other = waiting[digit];
        sums[digit] = sum ^ other ^ carry;
        carry = (sum & other) | ((sum ^ other) & carry);
      }
      waiting[digit] = carry;
    }
    for (uint32_t digit = 0; digit < digits; ++digit) {
      uint64_t carry = (blocks.size() >> digit & 1) != 0 ? waiting[digit] : 0;
      for (uint32_t higher = digit; higher < digits; ++higher) {
        carry = std::exchange(sums[higher], sums[higher] ^ carry) & carry;
      }
    }
    // sum >= least, from the highest digit down.
    uint64_t above = 0;
    uint64_t equal = ~uint64_t{0};
    for (uint32_t digit = digits; digit-- > 0;) {
      const bool one = (least >> digit & 1) != 0;
      above |= one ? 0 : equal & sums[digit];
      equal &= one ? sums[digit] : ~sums[digit];
    }
    majority[word] = above | equal;
  }
  return majority;
}

// The anchor's bits for one layer. `all` has those of all layers, if the anchor is not their mean,
// and the layer's begin at its `first_head`.
BlockBits Anchor(const UpperHalves& halves, const Blocks& blocks, uint32_t page_tokens,
                 const std::vector<bool>& all, uint32_t first_head) {
  if (all.empty()) return Majority(halves, blocks);
  BlockBits words(halves.words());
  for (uint32_t i = 0; i < halves.heads() * page_tokens; ++i) {
    const size_t bit = size_t{i / page_tokens} * halves.width() + i % page_tokens;
    const bool set = all[size_t{first_head} * page_tokens + i];
    words[bit / 64] |= uint64_t{set ? 1U : 0U} << bit % 64;
  }
  return words;
}

struct Differences {
  [[gnu::always_inline]] static uint32_t Count(absl::Span<const uint64_t> bits,
                                               absl::Span<const uint64_t> anchor) {
    int distance = 0;
    for (size_t word = 0; word < anchor.size(); ++word) {
      distance += std::popcount(bits[word] ^ anchor[word]);
    }
    return static_cast<uint32_t>(distance);
  }
};
FOLIO_WIDE uint32_t WideCount(absl::Span<const uint64_t> bits, absl::Span<const uint64_t> anchor) {
  return Differences::Count(bits, anchor);
}
uint32_t Distance(absl::Span<const uint64_t> bits, const BlockBits& anchor) {
  return Wide() ? WideCount(bits, anchor) : Differences::Count(bits, anchor);
}

}  // namespace

BlockIndex UnrepresentedBlock(absl::Span<KeptScores> layers, absl::Span<const float> block_scores,
                              BlockRange range, uint32_t page_tokens, uint32_t reps,
                              CrushAnchor anchor, uint64_t seed) {
  const uint32_t unprotected = range.end - range.begin;
  FOLIO_CHECK(reps < unprotected);
  Blocks candidates;
  ForEachBit(MaskOfHighest(block_scores.subspan(range.begin, unprotected), unprotected - reps - 1,
                           /*held=*/false),
             [&](uint32_t i) { candidates.emplace_back(range.begin + i); });
  if (reps == 0) return candidates[0];

  const uint32_t heads = layers[0].halves().heads();
  std::vector<bool> all;
  if (anchor != CrushAnchor::kMean) {
    const auto unasked = [](uint32_t) { return uint64_t{0}; };
    all = AnchorBits(anchor, seed, heads * static_cast<uint32_t>(layers.size()), page_tokens,
                     candidates.size(), unasked);
  }
  // In the order of (distance, index).
  absl::InlinedVector<uint64_t, 64> ordered;
  for (uint32_t i = 0; i < candidates.size(); ++i) ordered.push_back(i);
  for (uint32_t layer = 0; layer < layers.size(); ++layer) {
    UpperHalves& halves = layers[layer].halves();
    halves.Rank(range.begin, range.end);
    const BlockBits point = Anchor(halves, candidates, page_tokens, all, layer * heads);
    for (uint32_t i = 0; i < candidates.size(); ++i) {
      ordered[i] += uint64_t{Distance(halves.bits(candidates[i]), point)} << 32;
    }
  }
  // Representative i of k is entry floor(i * n / (k - 1)) of entries 0 to n = k, or entry 0 if k
  // = 1. The first i that skips an entry leaves that one out.
  uint32_t out = reps == 1 ? 1 : 0;
  for (uint32_t i = 0; reps > 1 && i < reps; ++i) {
    if (uint64_t{i} * reps / (reps - 1) != i) break;
    out = i + 1;
  }
  std::nth_element(ordered.begin(), ordered.begin() + out, ordered.end());
  return candidates[static_cast<uint32_t>(ordered[out])];
}

}  // namespace folio::policy
