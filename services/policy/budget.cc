#include "services/policy/budget.h"

#include <algorithm>
#include <cmath>

#include "services/base/invalid_argument.h"

namespace folio::policy {
namespace {

TokenCount RoundUp(double tokens, uint32_t page_tokens) {
  return TokenCount(static_cast<uint32_t>(std::ceil(tokens / page_tokens)) * page_tokens);
}

absl::Status CheckOneBudget(const BudgetRequest& request) {
  // Written so that NaN fails too.
  if (!(request.share >= 0 && request.share <= 1)) {
    return InvalidArgument("budget_share ", request.share, " must be above 0 and at most 1");
  }
  const int given = (request.tokens.value() > 0 ? 1 : 0) + (request.share > 0 ? 1 : 0) +
                    (request.per_layer.empty() ? 0 : 1);
  if (given > 1) {
    return InvalidArgument(
        "budget_tokens, budget_share and layer_budget_tokens exclude each other: give one");
  }
  if (!request.per_layer.empty() && request.schedule != BudgetSchedule::kUniform) {
    return InvalidArgument(
        "budget_schedule does not go with layer_budget_tokens, which says it all: leave one out");
  }
  return absl::OkStatus();
}

// `full` keeps every token, so only the sequence's length can be compared with the ceiling.
absl::Status ResolveFull(const BudgetRequest& request, const BudgetRules& rules,
                         const SequenceShape& shape, CacheConfig* config) {
  if (request.share > 0 || !request.per_layer.empty() ||
      request.schedule != BudgetSchedule::kUniform) {
    return InvalidArgument(
        "a budget does not go with policy full, which keeps every token: leave it out or choose a "
        "policy that evicts");
  }
  config->budget = request.tokens;  // Validate refuses it
  const uint64_t length = shape.prompt_tokens + shape.max_new_tokens;
  if (rules.ceiling.value() == 0 || length <= rules.ceiling.value()) return absl::OkStatus();
  return InvalidArgument(
      "policy full would hold ", length,
      " tokens (the prompt and max_new_tokens), this manager allows ", rules.ceiling.value(),
      ": choose a policy that evicts, shorten the prompt or lower max_new_tokens");
}

absl::Status CheckCeiling(absl::string_view field, TokenCount budget, const BudgetRules& rules) {
  if (rules.ceiling.value() == 0 || budget <= rules.ceiling) return absl::OkStatus();
  return InvalidArgument(field, " ", budget.value(), " is above this manager's ceiling of ",
                         rules.ceiling.value(), " tokens: lower it");
}

}  // namespace

std::vector<TokenCount> Pyramid(TokenCount budget, TokenCount min_budget, uint32_t num_layers,
                                uint32_t page_tokens) {
  const double pages = static_cast<double>(budget.value()) / page_tokens;
  const double min_pages = static_cast<double>(min_budget.value()) / page_tokens;
  std::vector<TokenCount> budgets;
  double exact = 0;  // pages of the layers so far, before rounding
  int64_t given = 0;
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    const double depth = num_layers == 1 ? 0.5 : double(layer) / (num_layers - 1);
    exact += pages * (1.5 - depth);
    // A layer gets what rounding took from the ones before it.
    const auto layer_pages =
        std::max<int64_t>(std::llround(exact) - given, std::llround(min_pages));
    given += layer_pages;
    budgets.emplace_back(static_cast<uint32_t>(layer_pages) * page_tokens);
  }
  return budgets;
}

absl::Status ResolveBudget(const BudgetRequest& request, const BudgetRules& rules,
                           const SequenceShape& shape, CacheConfig* config) {
  if (absl::Status s = CheckOneBudget(request); !s.ok()) return s;
  if (!config->policy->traits().evicts) {
    return ResolveFull(request, rules, shape, config);
  }
  if (!request.per_layer.empty()) {
    config->layer_budgets = request.per_layer;
    config->budget = *std::max_element(request.per_layer.begin(), request.per_layer.end());
    return CheckCeiling("layer_budget_tokens", config->budget, rules);
  }
  const bool given = request.tokens.value() > 0 || request.share > 0;
  const TokenCount tokens = given ? request.tokens : rules.default_tokens;
  const double share = given ? request.share : rules.default_share;
  const TokenCount min_budget = MinBudget(*config, shape.page_tokens);
  config->budget = tokens;
  if (share > 0) {
    config->budget = std::max(
        RoundUp(share * static_cast<double>(shape.prompt_tokens), shape.page_tokens), min_budget);
    if (rules.ceiling.value() > 0) config->budget = std::min(config->budget, rules.ceiling);
  }
  if (absl::Status s = CheckCeiling("budget_tokens", config->budget, rules); !s.ok()) return s;
  if (request.schedule == BudgetSchedule::kUniform || config->budget.value() == 0) {
    return absl::OkStatus();
  }
  config->layer_budgets = Pyramid(config->budget, min_budget, shape.num_layers, shape.page_tokens);
  config->budget = *std::max_element(config->layer_budgets.begin(), config->layer_budgets.end());
  // The ceiling holds for every layer.
  return CheckCeiling("budget_schedule pyramid: the first layer's budget", config->budget, rules);
}

}  // namespace folio::policy
