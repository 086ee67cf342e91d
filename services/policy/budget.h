// ResolveBudget turns the budget of a request, with the operator's rules, into one budget per
// layer. All functions here are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_POLICY_BUDGET_H_
#define FOLIO_SERVICES_POLICY_BUDGET_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/policy/cache_config.h"

namespace folio::policy {

// BudgetSchedule says how a budget is spread over the layers. The sum over all layers is the same
// for each schedule.
enum class BudgetSchedule {
  kUniform,
  // After PyramidKV (arXiv 2406.02069): falls evenly from 1.5 times the budget in the first layer
  // to 0.5 times in the last.
  kPyramid,
};

// BudgetRequest is the budget as a client gives it. At most one of the first three may be given.
struct BudgetRequest {
  TokenCount tokens;                  // 0 if not given
  double share = 0;                   // of the prompt, in (0, 1], or 0 if not given
  std::vector<TokenCount> per_layer;  // empty if not given
  BudgetSchedule schedule = BudgetSchedule::kUniform;
};

// BudgetRules are an operator's settings for every sequence of a manager.
struct BudgetRules {
  TokenCount default_tokens;  // for a request without a budget, or 0 for none
  double default_share = 0;   // the same as a share of the prompt, or 0
  // The most tokens that a sequence may hold in a layer, or 0 for no ceiling. A share is cut down
  // to it, and any other budget above it is refused.
  TokenCount ceiling;
};

struct SequenceShape {
  uint64_t prompt_tokens = 0;
  uint64_t max_new_tokens = 0;
  uint32_t num_layers = 1;
  uint32_t page_tokens = 16;
};

// Fills in `config`'s budgets from the request and the rules. The rest of `config` must be set.
// INVALID_ARGUMENT names the field and the fix. The result still needs Validate.
absl::Status ResolveBudget(const BudgetRequest& request, const BudgetRules& rules,
                           const SequenceShape& shape, CacheConfig* config);

// Spreads a budget over the layers in whole pages. No layer gets less than `min_budget`, a multiple
// of the page. The sum is exact unless `min_budget` raises it.
std::vector<TokenCount> Pyramid(TokenCount budget, TokenCount min_budget, uint32_t num_layers,
                                uint32_t page_tokens);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_BUDGET_H_
