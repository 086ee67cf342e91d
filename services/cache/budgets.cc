#include "services/cache/budgets.h"

#include <algorithm>

namespace folio::cache {

bool Budgets::over() const {
  if (!record_.policy().evicts) return false;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    if (record_.OverBudget(layer)) return true;
  }
  return false;
}

uint64_t Budgets::PagesOver() const {
  uint64_t tokens = 0;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    if (IsWindowed(record_, layer)) continue;
    const uint64_t full = record_.FullTokens(layer);
    tokens += full - std::min<uint64_t>(full, record_.cache.layer_budget(layer).value());
  }
  return tokens / page_tokens();
}

// At its end a prompt fits into the budget that it was opened with.
uint64_t Budgets::AllowanceInPrompt(size_t layer) const {
  const uint64_t opened = record_.cache_of_prompt.layer_budget(layer).value();
  const uint64_t budget = record_.cache.layer_budget(layer).value();
  const uint64_t full = record_.prompt_tokens - record_.prompt_tokens % page_tokens();
  return std::min(opened, std::max(budget, full));
}

uint64_t Budgets::Allowance(size_t layer) const {
  if (IsWindowed(record_, layer)) return record_.geometry.windows.MostFullTokens(page_tokens());
  if (record_.in_prompt()) return AllowanceInPrompt(layer);
  const uint64_t budget = record_.cache.layer_budget(layer).value();
  return record_.shrinking.Allowance(layer, budget, page_tokens());
}

std::vector<uint64_t> Budgets::FullTokens() const {
  std::vector<uint64_t> full;
  // A layer that a page filled beside its last plan has one page more than it may keep.
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    full.push_back(std::min<uint64_t>(record_.FullTokens(layer), Allowance(layer)));
  }
  return full;
}

uint64_t Budgets::WorstCase() const {
  uint64_t pages = 0;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    if (IsWindowed(record_, layer)) {
      pages += record_.footprint.WorstCase(layer);
      continue;
    }
    const uint64_t most = std::max(Allowance(layer), AllowanceInPrompt(layer));
    pages += record_.footprint.compacts(layer)
                 ? record_.footprint.MostInPrompt(layer)
                 : Footprint(page_tokens(), most)
                       .MaxPages(record_.prompt_tokens, record_.max_new_tokens);
  }
  return pages;
}

}  // namespace folio::cache
