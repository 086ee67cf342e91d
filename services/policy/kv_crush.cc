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
  const std::vector<uint64_t> stay =
      RepresentedTokens(scores, begin, middle, over + reps, reps, options_.anchor, options_.seed);
  return KeepMiddle(stay, scores.tokens, own);
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
  return UnrepresentedBlock(known.halves(), blocks, range, page_tokens, reps, options_.anchor,
                            options_.seed);
}

}  // namespace folio::policy
