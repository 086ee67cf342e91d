// From what a request says of its budget to one budget per layer. Pure functions; any thread.
#ifndef FOLIO_SERVICES_POLICY_BUDGET_H_
#define FOLIO_SERVICES_POLICY_BUDGET_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "services/common/ids.h"
#include "services/policy/registry.h"

namespace folio::policy {

// How a budget is spread over the layers. The sum over the layers is the same for all.
enum class BudgetSchedule {
  kUniform,
  // After PyramidKV (arXiv 2406.02069): falls evenly from 1.5 times the budget in the first layer
  // to 0.5 times in the last.
  kPyramid,
};

// At most one of the three may be given.
struct BudgetRequest {
  TokenCount tokens;                  // 0: not given
  double share = 0;                   // of the prompt, in (0, 1]; 0: not given
  std::vector<TokenCount> per_layer;  // empty: not given
  BudgetSchedule schedule = BudgetSchedule::kUniform;
};

// What an operator says for every sequence of a manager.
struct BudgetRules {
  TokenCount default_tokens;  // for a request that gives no budget; 0: none
  double default_share = 0;   // the same as a share of the prompt; 0: none
  // No sequence may hold more tokens in a layer; 0: none. A share is cut down to it, everything
  // else above it is refused.
  TokenCount ceiling;
};

struct SequenceShape {
  uint64_t prompt_tokens = 0;
  uint64_t max_new_tokens = 0;
  uint32_t num_layers = 1;
  uint32_t page_tokens = 16;
};

// Fills in `config`'s budgets from the request and the rules; the rest of `config` must be set.
// INVALID_ARGUMENT names the field and the fix; the result still needs Validate.
absl::Status ResolveBudget(const BudgetRequest& request, const BudgetRules& rules,
                           const SequenceShape& shape, CacheConfig* config);

// One budget per layer in whole pages, none below `least` (a multiple of the page), none missing
// from or added to the sum unless `least` demands it.
std::vector<TokenCount> Pyramid(TokenCount budget, TokenCount least, uint32_t num_layers,
                                uint32_t page_tokens);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_BUDGET_H_
