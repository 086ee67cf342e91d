#include "services/policy/kv_crush.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/base/invalid_argument.h"
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
    // Bytes may alias anything, so the compiler is told that these do not alias the sums.
    const uint8_t* __restrict from = all.row(item).data();
    uint32_t* __restrict to = ones.data();
    for (uint32_t bit = 0; bit < bits; ++bit) to[bit] += from[bit];
  }
  return ones;
}

// Anchors count bits token by token, whereas signatures are laid out head by head.
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
  // [distance]: first a count of the signatures, then where the next one goes.
  std::vector<uint32_t> place(all.bits() + 2);
  for (uint32_t i = 0; i < all.count(); ++i) {
    distance[i] = all.Distance(i, anchor);
    ++place[distance[i] + 1];
  }
  for (uint32_t d = 1; d < place.size(); ++d) place[d] += place[d - 1];
  std::vector<uint32_t> sorted(all.count());
  for (uint32_t i = 0; i < all.count(); ++i) sorted[place[distance[i]]++] = i;
  return sorted;
}

// The `lowest` items with the lowest scores, ascending. If scores are equal the older is lower.
std::vector<uint32_t> Lowest(absl::Span<const float> scores, uint32_t lowest) {
  std::vector<int32_t> keys(scores.size());
  for (uint32_t i = 0; i < keys.size(); ++i) keys[i] = SortKey(scores[i]);
  SearchGuess guess;
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

absl::Status KvCrushSpec::Check() const {
  // Written so that NaN fails too.
  if (!(options.share >= 0 && options.share < 1)) {
    return InvalidArgument("kv_crush.share ", options.share, " must be at least 0 and below 1");
  }
  return std::visit([](const auto& spec) { return spec.Check(); }, base);
}

std::shared_ptr<const Policy> KvCrushSpec::Make() const {
  std::shared_ptr<const RankingPolicy> made =
      std::visit([](const auto& spec) { return spec.Make(); }, base);
  return std::make_shared<const KvCrush>(std::move(made), options);
}

KvCrush::KvCrush(std::shared_ptr<const RankingPolicy> base, const Options& options)
    : Policy({.name = absl::StrCat("kv_crush(", base->traits().name, ")"),
              .scores = base->traits().scores,
              .sorts_heads = !options.prefill_only,
              .own_recent = base->traits().own_recent,
              .representative_share = options.share}),
      base_(std::move(base)),
      options_(options) {
  FOLIO_CHECK(options_.share >= 0 && options_.share < 1);
}

uint32_t KvCrush::Share(uint32_t budget) const {
  return traits().Representatives(TokenCount(budget)).value();
}

std::vector<uint32_t> KvCrush::Unrepresented(HeadOrder& order, ItemRange range,
                                             absl::Span<const float> item_scores, uint32_t lowest,
                                             uint32_t reps) const {
  const std::vector<uint32_t> candidates = Lowest(item_scores, lowest);
  range.items = candidates;
  const Signatures all = RankSignatures(order, range);
  const Signatures anchor = MakeAnchor(options_, all, order.heads());
  std::vector<bool> stays(candidates.size());
  for (const uint32_t i : EvenlySpaced(ByDistance(all, anchor), reps)) stays[i] = true;
  std::vector<uint32_t> go;
  go.reserve(lowest - reps);
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    if (!stays[i]) go.push_back(candidates[i]);
  }
  return go;
}

std::vector<TokenSlot> KvCrush::SelectPrefill(const LayerScores& scores,
                                              const Limits& limits) const {
  const Limits own = base_->PrefillLimits(limits);
  const uint32_t begin = own.sink.value();
  const uint32_t end = (scores.tokens - own.recent).value();
  const uint32_t reps = Share(own.budget.value());
  FOLIO_CHECK(begin + own.recent.value() + reps <= own.budget.value());
  const uint32_t over = (scores.tokens - own.budget).value();

  const std::vector<float> token_scores = base_->TokenScores(scores);
  const absl::Span<const float> middle(&token_scores[begin], end - begin);
  HeadOrder order;
  order.Append(scores, begin, end);
  const std::vector<uint32_t> go =
      Unrepresented(order, {.begin = 0, .end = end - begin}, middle, over + reps, reps);
  std::vector<TokenSlot> keep;
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

BlockIndex KvCrush::SelectDecode(const LayerScores& scores, const Limits& limits,
                                 KeptScores* kept) const {
  if (options_.prefill_only) return base_->SelectDecode(scores, limits, kept);
  const uint32_t page_tokens = scores.page_tokens;
  KeptScores fresh;
  if (kept == nullptr) fresh.Update(*this, scores);
  KeptScores& known = kept == nullptr ? fresh : *kept;
  const absl::Span<const float> blocks = known.block_scores();
  const BlockRange range = Candidates(static_cast<uint32_t>(blocks.size()), page_tokens, limits);
  const uint32_t unprotected = range.end - range.begin;
  const uint32_t reps = std::min(Share(limits.budget.value() / page_tokens), unprotected - 1);
  // One block goes: the candidates are one more than the representatives.
  const ItemRange items = {range.begin * page_tokens, range.end * page_tokens, page_tokens};
  const std::vector<uint32_t> go = Unrepresented(
      known.head_order(), items, blocks.subspan(range.begin, unprotected), reps + 1, reps);
  FOLIO_CHECK(go.size() == 1);
  return BlockIndex(range.begin + go[0]);
}

}  // namespace folio::policy
