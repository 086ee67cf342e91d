#include "services/policy/cache_config.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/base/invalid_argument.h"

namespace folio::policy {
namespace {

absl::Status CheckMultiple(absl::string_view field, TokenCount tokens, uint32_t page_tokens) {
  const uint64_t value = tokens.value();
  if (value % page_tokens == 0) return absl::OkStatus();
  const uint64_t below = value / page_tokens * page_tokens;
  return InvalidArgument(field, " ", value, " is not a multiple of the page size ", page_tokens,
                         ": use ", below, " or ", below + page_tokens);
}

// The tokens of a budget that are spoken for.
struct Claims {
  uint64_t sink, recent, own_recent, representatives;
  uint64_t prompt, end;  // by shares of the budget

  static Claims On(TokenCount budget, const CacheConfig& config, uint32_t page_tokens) {
    const PolicyTraits& traits = config.policy->traits();
    const auto share = [&](float part) {
      return uint64_t{SharePages(part, budget, page_tokens)} * page_tokens;
    };
    return {config.sink.value(),         config.recent.value(),
            traits.own_recent.value(),   traits.Representatives(budget).value(),
            share(config.shares.prompt), share(config.shares.ends)};
  }
  uint64_t start() const { return std::max(sink, end); }
  uint64_t compaction() const { return start() + std::max({recent, own_recent, end}); }
  uint64_t decode() const {
    return std::max(std::max(sink, prompt), end > 0 ? start() + end : 0) + recent;
  }
  uint64_t total() const { return std::max(compaction(), decode()) + representatives; }

  std::string Describe() const {
    std::string text =
        end > sink ? absl::StrCat("protect_ends ", end) : absl::StrCat("sink_tokens ", sink);
    if (decode() > compaction()) {
      const bool by_share = prompt >= start() + end;
      if (by_share) text = absl::StrCat("prompt_share ", prompt);
      if (!by_share && end > 0) absl::StrAppend(&text, " + protect_ends ", end);
      absl::StrAppend(&text, " + recent_tokens ", recent);
    } else if (own_recent > std::max(recent, end)) {
      absl::StrAppend(&text, " + window ", own_recent);
    } else if (end > recent) {
      absl::StrAppend(&text, " + protect_ends ", end);
    } else {
      absl::StrAppend(&text, " + recent_tokens ", recent);
    }
    if (representatives > 0) absl::StrAppend(&text, " + representatives ", representatives);
    return absl::StrCat(text, " = ", total());
  }
};

absl::Status CheckBudget(absl::string_view field, TokenCount budget, const CacheConfig& config,
                         uint32_t page_tokens) {
  if (budget.value() == 0) {
    return InvalidArgument(field, " is missing: policy ", config.policy->traits().name,
                           " needs a multiple of ", page_tokens, ", at least ",
                           MinBudget(config, page_tokens).value());
  }
  if (absl::Status s = CheckMultiple(field, budget, page_tokens); !s.ok()) return s;
  const Claims claims = Claims::On(budget, config, page_tokens);
  if (claims.total() <= budget.value()) return absl::OkStatus();
  return InvalidArgument(claims.Describe(), " do not fit ", field, " ", budget.value(), ": raise ",
                         field, " to ", MinBudget(config, page_tokens).value(),
                         " or protect fewer tokens");
}

absl::Status CheckStreaming(const CacheConfig& config, uint32_t page_tokens) {
  if (config.compaction == Compaction::kWhole) return absl::OkStatus();
  const PolicyTraits& traits = config.policy->traits();
  if (!CanStream(traits)) {
    if (config.compaction == Compaction::kAutomatic) return absl::OkStatus();
    return InvalidArgument(
        "compaction streamed does not go with policy ", traits.name,
        traits.evicts ? ", whose scores are known at the prompt's end: choose compaction whole or "
                        "a policy that scores tokens when they come, such as paged_eviction"
                      : ", which keeps every token: leave compaction out or choose a policy that "
                        "evicts");
  }
  if (config.compaction_stride.value() == 0) {
    return InvalidArgument("compaction_stride_tokens is 0: use a multiple of ", page_tokens);
  }
  return CheckMultiple("compaction_stride_tokens", config.compaction_stride, page_tokens);
}

absl::Status CheckLayers(const CacheConfig& config) {
  if (config.layers == Layers::kPerLayer) return absl::OkStatus();
  if (!config.policy->traits().evicts) {
    return InvalidArgument("layers shared does not go with policy ", config.policy->traits().name,
                           ", which keeps every token: leave layers out or choose a policy that "
                           "evicts");
  }
  if (config.layer_budgets.empty()) return absl::OkStatus();
  return InvalidArgument(
      "layers shared needs one budget for all layers: leave layer_budget_tokens and "
      "budget_schedule out, or choose layers per_layer");
}

}  // namespace

bool CanStream(const PolicyTraits& policy) {
  return policy.evicts && policy.scores.time != ScoreTime::kPromptEnd;
}

TokenCount MinBudget(const CacheConfig& config, uint32_t page_tokens) {
  // Claims grow with the budget, but more slowly, so every budget above one that fits also fits. A
  // binary search therefore finds the smallest. Shares are rounded to pages, which may make one too
  // small just above another that fits, so they must fit with two pages to spare.
  const bool shared = config.shares.prompt > 0 || config.shares.ends > 0;
  const uint64_t spare = shared ? uint64_t{2} * page_tokens : 0;
  uint32_t fits = UINT32_MAX / page_tokens;
  for (uint32_t low = 1; low < fits;) {
    const uint32_t pages = low + (fits - low) / 2;
    const TokenCount budget(pages * page_tokens);
    if (Claims::On(budget, config, page_tokens).total() + spare <= budget.value()) {
      fits = pages;
    } else {
      low = pages + 1;
    }
  }
  return TokenCount(fits * page_tokens);
}

absl::Status Validate(const CacheConfig& config, uint32_t page_tokens, uint32_t num_layers) {
  if (absl::Status s = CheckMultiple("sink_tokens", config.sink, page_tokens); !s.ok()) return s;
  if (absl::Status s = CheckMultiple("recent_tokens", config.recent, page_tokens); !s.ok())
    return s;
  if (absl::Status s = CheckStreaming(config, page_tokens); !s.ok()) return s;
  if (absl::Status s = CheckLayers(config); !s.ok()) return s;
  if (absl::Status s = CheckShares(config.shares, config.policy->traits()); !s.ok()) return s;
  const PolicyTraits& traits = config.policy->traits();
  if (!traits.evicts) {
    if (config.budget.value() == 0 && config.layer_budgets.empty()) return absl::OkStatus();
    return InvalidArgument(
        "budget_tokens ", config.budget.value(), " does not go with policy ", traits.name,
        ", which keeps every token: leave budget_tokens out or choose a policy that "
        "evicts");
  }
  if (config.layer_budgets.empty()) {
    return CheckBudget("budget_tokens", config.budget, config, page_tokens);
  }
  if (config.layer_budgets.size() != num_layers) {
    return InvalidArgument("layer_budget_tokens has ", config.layer_budgets.size(),
                           " entries, the model has ", num_layers,
                           " layers: give one budget for each");
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    absl::Status s = CheckBudget(absl::StrCat("layer_budget_tokens[", layer, "]"),
                                 config.layer_budgets[layer], config, page_tokens);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace folio::policy
