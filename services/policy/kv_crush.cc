#include "services/policy/kv_crush.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/check.h"
#include "services/policy/ranking.h"
#include "services/policy/signature.h"
#include "services/policy/split_mix.h"

namespace folio::policy {
namespace {

Signatures MakeAnchor(const KvCrush::Options& options, const Signatures& all,
                      const std::vector<uint32_t>& candidates) {
  Signatures point(1, all.bits());
  SplitMix64 random(options.seed);
  for (uint32_t bit = 0; bit < all.bits(); ++bit) {
    bool set = false;
    switch (options.anchor) {
      case CrushAnchor::kMean: {
        const auto ones = std::count_if(candidates.begin(), candidates.end(),
                                        [&](uint32_t item) { return all.Get(item, bit); });
        set = 2 * static_cast<size_t>(ones) > candidates.size();
        break;
      }
      case CrushAnchor::kAlternating:
        set = bit % 2 == 1;
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

// Who of the candidates (items of `all`, ascending) stays.
std::vector<uint32_t> Represent(const Signatures& all, std::vector<uint32_t> candidates,
                                const Signatures& anchor, uint32_t wanted) {
  std::vector<uint32_t> distance(all.count());
  for (const uint32_t item : candidates) distance[item] = all.Distance(item, anchor);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](uint32_t a, uint32_t b) { return distance[a] < distance[b]; });
  return EvenlySpaced(candidates, wanted);
}

// The `lowest` items of the lowest score, ascending; equal scores: the older goes first.
std::vector<uint32_t> Lowest(absl::Span<const float> scores, uint32_t lowest) {
  std::vector<uint32_t> items(scores.size());
  for (uint32_t i = 0; i < items.size(); ++i) items[i] = i;
  std::nth_element(items.begin(), items.begin() + lowest, items.end(), [&](uint32_t a, uint32_t b) {
    return scores[a] != scores[b] ? scores[a] < scores[b] : a < b;
  });
  items.resize(lowest);
  std::sort(items.begin(), items.end());
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

std::vector<uint32_t> KvCrush::Unrepresented(const LayerScores& scores,
                                             absl::Span<const float> item_scores,
                                             uint32_t first_slot, uint32_t item_tokens,
                                             uint32_t lowest, uint32_t reps) const {
  const std::vector<uint32_t> candidates = Lowest(item_scores, lowest);
  const auto tokens = static_cast<uint32_t>(item_scores.size()) * item_tokens;
  const Signatures all = RankSignatures(scores, first_slot, first_slot + tokens, item_tokens);
  const Signatures anchor = MakeAnchor(options_, all, candidates);
  std::vector<uint32_t> stay = Represent(all, candidates, anchor, reps);
  std::sort(stay.begin(), stay.end());
  std::vector<uint32_t> go;
  std::set_difference(candidates.begin(), candidates.end(), stay.begin(), stay.end(),
                      std::back_inserter(go));
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
  const std::vector<uint32_t> go = Unrepresented(scores, middle, begin, 1, over + reps, reps);
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
  const std::vector<float> blocks = base_->BlockScores(scores);
  const BlockRange range = Candidates(static_cast<uint32_t>(blocks.size()), page_tokens, limits);
  const uint32_t unprotected = range.end - range.begin;
  const uint32_t reps = std::min(Share(limits.budget.value() / page_tokens), unprotected - 1);
  // One goes: what is not represented of one more than may be.
  const std::vector<uint32_t> go =
      Unrepresented(scores, absl::MakeConstSpan(blocks).subspan(range.begin, unprotected),
                    range.begin * page_tokens, page_tokens, reps + 1, reps);
  FOLIO_CHECK(go.size() == 1);
  return BlockIndex(range.begin + go[0]);
}

}  // namespace folio::policy
