// What a sequence's cache settings may be.
#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "services/common/refuse.h"
#include "services/policy/registry.h"

namespace folio::policy {
namespace {

absl::Status CheckMultiple(absl::string_view field, TokenCount tokens, uint32_t page_tokens) {
  const uint64_t value = tokens.value();
  if (value % page_tokens == 0) return absl::OkStatus();
  const uint64_t below = value / page_tokens * page_tokens;
  return Refuse(field, " ", value, " is not a multiple of the page size ", page_tokens, ": use ",
                below, " or ", below + page_tokens);
}

// Of the policies that look back from the prompt's end.
absl::Status CheckWindow(absl::string_view policy, uint32_t window, uint32_t pool) {
  constexpr uint32_t kMostPool = 127;
  if (window == 0) {
    return Refuse(policy,
                  ".window 0: at least one query must look back; leave it out for the default");
  }
  if (pool % 2 == 1 && pool <= kMostPool) return absl::OkStatus();
  return Refuse(policy, ".pool ", pool, " must be odd, from 1 to ", kMostPool,
                ": as many neighbours on one side as on the other");
}

struct CheckParameters {
  absl::Status operator()(const SnapKvSpec& spec) const {
    return CheckWindow("snap_kv", spec.window, spec.pool);
  }
  absl::Status operator()(const QueryDiffSpec& spec) const {
    const auto& [share, window, pool] = spec.options;
    // Written so that NaN fails too.
    if (!(share >= 0 && share <= 1)) {
      return Refuse("query_diff.share ", share, " must be at least 0 and at most 1");
    }
    return CheckWindow("query_diff", window, pool);
  }
  absl::Status operator()(const KvCrushSpec& spec) const {
    // Written so that NaN fails too.
    const float share = spec.options.share;
    if (!(share >= 0 && share < 1)) {
      return Refuse("kv_crush.share ", share, " must be at least 0 and below 1");
    }
    return std::visit(*this, spec.base);
  }
  template <typename Spec>
  absl::Status operator()(const Spec&) const {
    return absl::OkStatus();
  }
};

// The tokens of a budget that are spoken for, and by whom.
struct Claims {
  uint64_t sink, recent, own_recent, representatives;

  static Claims Of(const CacheConfig& config, const Policy& policy, TokenCount budget) {
    return {config.sink.value(), config.recent.value(), policy.own_recent().value(),
            policy.Representatives(budget).value()};
  }
  uint64_t total() const { return sink + std::max(recent, own_recent) + representatives; }
  std::string Describe() const {
    std::string text = absl::StrCat("sink_tokens ", sink);
    if (own_recent > recent) {
      absl::StrAppend(&text, " + window ", own_recent);
    } else {
      absl::StrAppend(&text, " + recent_tokens ", recent);
    }
    if (representatives > 0) absl::StrAppend(&text, " + representatives ", representatives);
    return absl::StrCat(text, " = ", total());
  }
};

absl::Status CheckBudget(absl::string_view field, TokenCount budget, const CacheConfig& config,
                         const Policy& policy, uint32_t page_tokens) {
  if (budget.value() == 0) {
    return Refuse(field, " is missing: policy ", policy.name(), " needs a multiple of ",
                  page_tokens, ", at least ", LeastBudget(config, page_tokens).value());
  }
  if (absl::Status s = CheckMultiple(field, budget, page_tokens); !s.ok()) return s;
  const Claims claims = Claims::Of(config, policy, budget);
  if (claims.total() <= budget.value()) return absl::OkStatus();
  return Refuse(claims.Describe(), " do not fit ", field, " ", budget.value(), ": raise ", field,
                " to ", LeastBudget(config, page_tokens).value(), " or protect fewer tokens");
}

}  // namespace

TokenCount LeastBudget(const CacheConfig& config, uint32_t page_tokens) {
  const std::shared_ptr<const Policy> policy = MakePolicy(config.policy);
  // Representatives grow with the budget, but never as fast as it: what fits once fits from there
  // on.
  uint32_t fits = UINT32_MAX / page_tokens;
  for (uint32_t least = 1; least < fits;) {
    const uint32_t pages = least + (fits - least) / 2;
    const TokenCount budget(pages * page_tokens);
    if (Claims::Of(config, *policy, budget).total() <= budget.value()) {
      fits = pages;
    } else {
      least = pages + 1;
    }
  }
  return TokenCount(fits * page_tokens);
}

absl::Status ValidateParameters(const PolicySpec& spec) {
  return std::visit(CheckParameters(), spec);
}

absl::Status Validate(const CacheConfig& config, uint32_t page_tokens, uint32_t num_layers) {
  if (absl::Status s = CheckMultiple("sink_tokens", config.sink, page_tokens); !s.ok()) return s;
  if (absl::Status s = CheckMultiple("recent_tokens", config.recent, page_tokens); !s.ok())
    return s;
  if (absl::Status s = ValidateParameters(config.policy); !s.ok()) return s;
  const std::shared_ptr<const Policy> policy = MakePolicy(config.policy);
  if (!policy->evicts()) {
    if (config.budget.value() == 0 && config.layer_budgets.empty()) return absl::OkStatus();
    return Refuse("budget_tokens ", config.budget.value(), " does not go with policy ",
                  policy->name(),
                  ", which keeps every token: leave budget_tokens out or choose a policy that "
                  "evicts");
  }
  if (config.layer_budgets.empty()) {
    return CheckBudget("budget_tokens", config.budget, config, *policy, page_tokens);
  }
  if (config.layer_budgets.size() != num_layers) {
    return Refuse("layer_budget_tokens has ", config.layer_budgets.size(),
                  " entries, the model has ", num_layers, " layers: give one budget for each");
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    absl::Status s = CheckBudget(absl::StrCat("layer_budget_tokens[", layer, "]"),
                                 config.layer_budgets[layer], config, *policy, page_tokens);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace folio::policy
