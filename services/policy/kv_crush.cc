#include "services/policy/kv_crush.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/check.h"
#include "services/policy/kept_scores.h"
#include "services/policy/ranking.h"
#include "services/policy/split_mix.h"

namespace folio::policy {
namespace {

// How many of the signatures have each bit.
std::vector<uint32_t> Columns(const Signatures& all) {
  const uint32_t bits = all.bits();
  std::vector<uint32_t> ones(bits);
  for (uint32_t item = 0; item < all.count(); ++item) {
    // Bytes could be anybody's memory: the compiler is told that they are not the sums'.
    const uint8_t* __restrict from = all.of(item).data();
    uint32_t* __restrict to = ones.data();
    for (uint32_t bit = 0; bit < bits; ++bit) to[bit] += from[bit];
  }
  return ones;
}

// `heads` and the signatures' length tell which bit is whose; anchors count them token by token.
Signatures MakeAnchor(const KvCrush::Options& options, const Signatures& all, uint32_t heads) {
  Signatures point(1, all.bits());
  SplitMix64 random(options.seed);
  const std::vector<uint32_t> ones =
      options.anchor == CrushAnchor::kMean ? Columns(all) : std::vector<uint32_t>();
  const uint32_t tokens = all.bits() / heads;
  for (uint32_t i = 0; i < all.bits(); ++i) {
    const uint32_t bit = i % heads * tokens + i / heads;
    bool set = false;
    switch (options.anchor) {
      case CrushAnchor::kMean:
        set = 2 * uint64_t{ones[bit]} > all.count();
        break;
      case CrushAnchor::kAlternating:
        set = i % 2 == 1;
        break;
      case CrushAnchor::kZeros:
        break;
      case CrushAnchor::kOnes:
        set = true;
        break;
      case CrushAnchor::kRandom:
        set = random.Next() >> 63 != 0;
        break;
    }
    if (set) point.Set(0, bit);
  }
  return point;
}

// The signatures by (distance to the anchor, index).
std::vector<uint32_t> ByDistance(const Signatures& all, const Signatures& anchor) {
  std::vector<uint32_t> distance(all.count());
  std::vector<uint32_t> place(all.bits() + 2);  // [distance]; first how many, then where the next
  for (uint32_t i = 0; i < all.count(); ++i) {
    distance[i] = all.Distance(i, anchor);
    ++place[distance[i] + 1];
  }
  for (uint32_t d = 1; d < place.size(); ++d) place[d] += place[d - 1];
  std::vector<uint32_t> sorted(all.count());
  for (uint32_t i = 0; i < all.count(); ++i) sorted[place[distance[i]]++] = i;
  return sorted;
}

// The `lowest` items of the lowest score, ascending; equal scores: the older goes first.
std::vector<uint32_t> Lowest(absl::Span<const float> scores, uint32_t lowest) {
  std::vector<int32_t> keys(scores.size());
  for (uint32_t i = 0; i < keys.size(); ++i) keys[i] = RankKey(scores[i]);
  RankGuess guess;
  const auto others = static_cast<uint32_t>(scores.size()) - lowest;
  const Highest higher = FindHighest(keys, others, guess);
  std::vector<uint32_t> items(scores.size() + 1);
  uint32_t found = 0;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    items[found] = i;
    found += higher.Holds(keys[i], i) ? 0 : 1;
  }
  items.resize(lowest);
  return items;
}

}  // namespace

KvCrush::KvCrush(std::shared_ptr<const RankingPolicy> base, const Options& options)
    : base_(std::move(base)),
      options_(options),
      name_(absl::StrCat("kv_crush(", base_->name(), ")")) {
  FOLIO_CHECK(options_.share >= 0 && options_.share < 1);
}

TokenCount KvCrush::Representatives(TokenCount budget) const {
  return TokenCount(Share(budget.value()));
}

uint32_t KvCrush::Share(uint32_t budget) const {
  return static_cast<uint32_t>(std::floor(double{options_.share} * budget));
}

std::vector<uint32_t> KvCrush::Unrepresented(HeadRanks& ranks, RankedItems range,
                                             absl::Span<const float> item_scores, uint32_t lowest,
                                             uint32_t reps) const {
  const std::vector<uint32_t> candidates = Lowest(item_scores, lowest);
  range.items = candidates;
  const Signatures all = RankSignatures(ranks, range);
  const Signatures anchor = MakeAnchor(options_, all, ranks.heads());
  std::vector<bool> stays(candidates.size());
  for (const uint32_t i : EvenlySpaced(ByDistance(all, anchor), reps)) stays[i] = true;
  std::vector<uint32_t> go;
  go.reserve(lowest - reps);
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    if (!stays[i]) go.push_back(candidates[i]);
  }
  return go;
}

std::vector<SlotIndex> KvCrush::SelectPrefill(const LayerScores& scores,
                                              const Limits& limits) const {
  const Limits own = base_->PrefillLimits(limits);
  const uint32_t begin = own.sink.value();
  const uint32_t end = (scores.tokens - own.recent).value();
  const uint32_t reps = Share(own.budget.value());
  FOLIO_CHECK(begin + own.recent.value() + reps <= own.budget.value());
  const uint32_t over = (scores.tokens - own.budget).value();

  const std::vector<float> token_scores = base_->TokenScores(scores);
  const absl::Span<const float> middle(&token_scores[begin], end - begin);
  HeadRanks ranks;
  ranks.Append(scores, begin, end);
  const std::vector<uint32_t> go =
      Unrepresented(ranks, {.begin = 0, .end = end - begin}, middle, over + reps, reps);
  std::vector<SlotIndex> keep;
  keep.reserve(own.budget.value());
  auto gone = go.begin();
  for (uint32_t slot = 0; slot < scores.tokens.value(); ++slot) {
    if (gone != go.end() && begin + *gone == slot) {
      ++gone;
    } else {
      keep.emplace_back(slot);
    }
  }
  return keep;
}

BlockIndex KvCrush::SelectDecode(const LayerScores& scores, const Limits& limits) const {
  if (options_.prefill_only) return base_->SelectDecode(scores, limits);
  const uint32_t page_tokens = scores.page_tokens;
  KeptScores read;
  if (scores.kept == nullptr) read.Follow(*this, scores);
  KeptScores& kept = scores.kept == nullptr ? read : *scores.kept;
  const absl::Span<const float> blocks = kept.block_scores();
  const BlockRange range = Candidates(static_cast<uint32_t>(blocks.size()), page_tokens, limits);
  const uint32_t unprotected = range.end - range.begin;
  const uint32_t reps = std::min(Share(limits.budget.value() / page_tokens), unprotected - 1);
  // One goes: what is not represented of one more than may be.
  const RankedItems items = {range.begin * page_tokens, range.end * page_tokens, page_tokens};
  const std::vector<uint32_t> go =
      Unrepresented(kept.ranks(), items, blocks.subspan(range.begin, unprotected), reps + 1, reps);
  FOLIO_CHECK(go.size() == 1);
  return BlockIndex(range.begin + go[0]);
}

}  // namespace folio::policy
