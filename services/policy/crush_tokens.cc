#include "services/policy/crush_tokens.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

#include "services/base/check.h"
#include "services/policy/key_search.h"
#include "services/policy/score_rows.h"

namespace folio::policy {
namespace {

using TokenBits = std::vector<uint64_t>;

// Adds a plane for each head of the layer: bit i says whether the head ranks token begin + i in the
// upper half of `count` tokens.
void RankByHead(const LayerScores& scores, uint32_t begin, uint32_t count,
                std::vector<TokenBits>& upper) {
  const uint32_t heads = scores.kv_heads;
  const auto keys = std::make_unique_for_overwrite<int32_t[]>(size_t{heads} * count);
  const uint32_t end = std::clamp(scores.scored.value(), begin, begin + count);
  for (uint32_t slot = begin; slot < end;) {
    const uint32_t offset = slot % scores.page_tokens;
    const uint32_t rows = std::min(scores.page_tokens - offset, end - slot);
    RowKeys(&scores.pages[slot / scores.page_tokens][size_t{offset} * heads], rows, heads,
            &keys[slot - begin], count);
    slot += rows;
  }
  // Tokens without a row are lowest.
  for (uint32_t head = 0; head < heads; ++head) {
    std::fill(&keys[size_t{head} * count + (end - begin)], &keys[size_t{head} * count] + count,
              SortKey(-std::numeric_limits<float>::infinity()));
  }
  SearchGuess guess;  // heads are alike, so each search begins where the last one ended
  for (uint32_t head = 0; head < heads; ++head) {
    const absl::Span<const int32_t> own(&keys[size_t{head} * count], count);
    upper.push_back(MaskOf(own, FindHighest(own, count / 2, guess), true));
  }
}

// Each token's distance to the anchor, as numbers whose digit d is in plane d of each word.
struct Distances {
  uint32_t digits;
  TokenBits planes;  // [word][digit]

  // The tokens of `word` at that distance.
  uint64_t At(size_t word, uint32_t distance) const {
    uint64_t mask = ~uint64_t{0};
    for (uint32_t d = 0; d < digits; ++d) {
      const uint64_t plane = planes[word * digits + d];
      mask &= (distance >> d & 1) != 0 ? plane : ~plane;
    }
    return mask;
  }
};

Distances DistancesTo(const std::vector<bool>& anchor, const std::vector<TokenBits>& upper) {
  const size_t words = upper[0].size();
  const auto digits = static_cast<uint32_t>(std::bit_width(upper.size()));
  Distances result = {digits, TokenBits(words * digits)};
  for (size_t head = 0; head < upper.size(); ++head) {
    const uint64_t flip = anchor[head] ? ~uint64_t{0} : 0;
    for (size_t word = 0; word < words; ++word) {
      uint64_t carry = upper[head][word] ^ flip;
      for (uint32_t d = 0; d < digits; ++d) {
        uint64_t& plane = result.planes[word * digits + d];
        const uint64_t both = plane & carry;
        plane ^= carry;
        carry = both;
      }
    }
  }
  return result;
}

uint64_t LowestBit(uint64_t word, uint64_t skipped) {
  for (; skipped > 0; --skipped) word &= word - 1;
  return word & -word;
}

// Adds the representatives of the `count` candidates to those that stay.
void AddRepresentatives(const Distances& distances, uint32_t heads, uint32_t count, uint32_t reps,
                        const TokenBits& candidates, TokenBits& stay) {
  // The candidates by (distance, slot) are not written down. `at` of them come before the word.
  uint64_t at = 0;
  uint64_t taken = 0;
  for (uint32_t distance = 0; distance <= heads && taken < reps; ++distance) {
    for (size_t word = 0; word < candidates.size() && taken < reps; ++word) {
      const uint64_t here = candidates[word] & distances.At(word, distance);
      const auto more = static_cast<uint64_t>(std::popcount(here));
      for (; taken < reps; ++taken) {
        const uint64_t entry = reps == 1 ? 0 : taken * (count - 1) / (reps - 1);
        if (entry >= at + more) break;
        stay[word] |= LowestBit(here, entry - at);
      }
      at += more;
    }
  }
}

}  // namespace

std::vector<uint64_t> RepresentedTokens(LayerGroup layers, uint32_t begin,
                                        absl::Span<const float> token_scores, uint32_t lowest,
                                        uint32_t reps, CrushAnchor anchor, uint64_t seed) {
  const auto count = static_cast<uint32_t>(token_scores.size());
  FOLIO_CHECK(reps <= lowest && lowest <= count);
  const std::vector<int32_t> keys = SortKeys(token_scores);
  SearchGuess guess;
  const Highest others = FindHighest(keys, count - lowest, guess);
  TokenBits stay = MaskOf(keys, others, true);
  if (reps == 0) return stay;
  const TokenBits candidates = MaskOf(keys, others, false);
  std::vector<TokenBits> upper;
  for (const LayerScores& layer : layers) RankByHead(layer, begin, count, upper);
  const auto heads = static_cast<uint32_t>(upper.size());
  const auto ones = [&](uint32_t head) {
    uint64_t sum = 0;
    for (size_t word = 0; word < candidates.size(); ++word) {
      sum += static_cast<uint64_t>(std::popcount(upper[head][word] & candidates[word]));
    }
    return sum;
  };
  const std::vector<bool> point = AnchorBits(anchor, seed, heads, 1, lowest, ones);
  AddRepresentatives(DistancesTo(point, upper), heads, lowest, reps, candidates, stay);
  return stay;
}

}  // namespace folio::policy
