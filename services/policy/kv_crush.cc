#include "services/policy/kv_crush.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/base/invalid_argument.h"
#include "services/policy/crush_blocks.h"
#include "services/policy/crush_tokens.h"
#include "services/policy/kept_scores.h"
#include "services/policy/quotas.h"
#include "services/policy/ranking.h"

namespace folio::policy {
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

std::vector<TokenSlot> KvCrush::SelectPrefill(LayerGroup layers, const Limits& limits) const {
  const TokenCount tokens = layers[0].tokens;
  const Limits own = base_->PrefillLimits(limits);
  const uint32_t begin = own.sink.value();
  const uint32_t end = (tokens - own.recent).value();
  const uint32_t reps = Share(own.budget.value());
  FOLIO_CHECK(begin + own.recent.value() + reps <= own.budget.value());
  const uint32_t over = (tokens - own.budget).value();

  std::vector<float> token_scores = base_->PrefillRanking(layers, own);
  // Quotas are of the tokens that stay for their scores.
  KeepQuotas(layers[0].stretch_ends, own, own.budget - own.sink - own.recent - TokenCount(reps),
             token_scores);
  const absl::Span<const float> middle(&token_scores[begin], end - begin);
  const std::vector<uint64_t> stay =
      RepresentedTokens(layers, begin, middle, over + reps, reps, options_.anchor, options_.seed);
  return KeepMiddle(stay, tokens, own);
}

BlockIndex KvCrush::SelectDecode(LayerGroup layers, const Limits& limits,
                                 absl::Span<KeptScores> kept) const {
  if (options_.prefill_only) return base_->SelectDecode(layers, limits, kept);
  const uint32_t page_tokens = layers[0].page_tokens;
  std::vector<KeptScores> fresh;
  if (kept.empty()) {
    fresh.resize(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) fresh[i].Update(*this, layers[i]);
    kept = absl::MakeSpan(fresh);
  }
  const BlockRange range = Candidates(layers[0].tokens.value() / page_tokens, page_tokens, limits);
  const uint32_t share = Share(limits.budget.value() / page_tokens);
  const bool holds = HoldsBlocks(layers[0], limits);
  absl::Span<const float> blocks = kept[0].block_scores();
  std::vector<float> ranking;
  if (kept.size() > 1 || holds) {
    ranking = base_->DecodeRanking(layers, limits, range, kept, share);
    blocks = ranking;
  }
  uint32_t free = range.end - range.begin;
  if (holds) {
    constexpr float kHeld = std::numeric_limits<float>::infinity();
    free -= static_cast<uint32_t>(
        std::count(ranking.begin() + range.begin, ranking.begin() + range.end, kHeld));
  }
  const uint32_t reps = std::min(share, free - 1);
  return UnrepresentedBlock(kept, blocks, range, page_tokens, reps, options_.anchor, options_.seed);
}

}  // namespace folio::policy
