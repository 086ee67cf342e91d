#include "services/policy/kv_crush.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/base/invalid_argument.h"
#include "services/policy/crush_blocks.h"
#include "services/policy/crush_tokens.h"
#include "services/policy/kept_scores.h"
#include "services/policy/ranking.h"

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

Signatures MakeAnchor(const KvCrush::Options& options, const Signatures& all, uint32_t heads) {
  const std::vector<uint32_t> ones =
      options.anchor == CrushAnchor::kMean ? Columns(all) : std::vector<uint32_t>();
  const std::vector<bool> bits =
      AnchorBits(options.anchor, options.seed, heads, all.bits() / heads, all.count(),
                 [&](uint32_t bit) { return uint64_t{ones[bit]}; });
  Signatures point(1, all.bits());
  for (uint32_t bit = 0; bit < all.bits(); ++bit) {
    if (bits[bit]) point.Set(0, bit);
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
  const std::vector<int32_t> keys = SortKeys(scores);
  SearchGuess guess;
  const auto others = static_cast<uint32_t>(scores.size()) - lowest;
  std::vector<uint32_t> items;
  items.reserve(lowest);
  ForEachBit(MaskOf(keys, FindHighest(keys, others, guess), false),
             [&](uint32_t i) { items.push_back(i); });
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
  const std::vector<uint64_t> go =
      UnrepresentedTokens(scores, begin, middle, over + reps, reps, options_.anchor, options_.seed);
  std::vector<uint64_t> stays(go.size());
  for (size_t word = 0; word < go.size(); ++word) stays[word] = ~go[word];
  if (middle.size() % 64 != 0) stays.back() &= ~(~uint64_t{0} << middle.size() % 64);
  std::vector<TokenSlot> keep;
  keep.reserve(own.budget.value());
  for (uint32_t slot = 0; slot < begin; ++slot) keep.emplace_back(slot);
  ForEachBit(stays, [&](uint32_t i) { keep.emplace_back(begin + i); });
  for (uint32_t slot = end; slot < scores.tokens.value(); ++slot) keep.emplace_back(slot);
  return keep;
}

BlockIndex KvCrush::SelectDecode(const LayerScores& scores, const Limits& limits,
                                 KeptScores* kept) const {
  if (options_.prefill_only) return base_->SelectDecode(scores, limits, kept);
  const uint32_t page_tokens = scores.page_tokens;
  const std::vector<float> computed = kept == nullptr ? BlockScores(scores) : std::vector<float>();
  const absl::Span<const float> blocks =
      kept == nullptr ? absl::MakeConstSpan(computed) : kept->block_scores();
  const BlockRange range = Candidates(static_cast<uint32_t>(blocks.size()), page_tokens, limits);
  const uint32_t unprotected = range.end - range.begin;
  const uint32_t reps = std::min(Share(limits.budget.value() / page_tokens), unprotected - 1);
  if (kept != nullptr) {
    return UnrepresentedBlock(kept->halves(), blocks, range, page_tokens, reps, options_.anchor,
                              options_.seed);
  }
  // One block goes: the candidates are one more than the representatives.
  HeadOrder order;
  order.Append(scores, 0, scores.tokens.value() / page_tokens * page_tokens);
  const ItemRange items = {range.begin * page_tokens, range.end * page_tokens, page_tokens};
  const std::vector<uint32_t> go =
      Unrepresented(order, items, blocks.subspan(range.begin, unprotected), reps + 1, reps);
  FOLIO_CHECK(go.size() == 1);
  return BlockIndex(range.begin + go[0]);
}

}  // namespace folio::policy
