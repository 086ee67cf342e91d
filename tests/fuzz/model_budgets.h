// This header has the model's rules of a sequence whose budget an operator lowered. Its prompt has
// the budgets that it was opened with, also when it is computed again, and it comes down to the
// lower ones in decode.
#ifndef FOLIO_TESTS_FUZZ_MODEL_BUDGETS_H_
#define FOLIO_TESTS_FUZZ_MODEL_BUDGETS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/fuzz/model_sequence.h"
#include "tests/fuzz/model_shares.h"

namespace folio::cache {

inline uint64_t FullTokens(const ModelLayer& layer, uint64_t page) {
  return layer.positions.size() / page * page;
}

// The window, and what has not come to a stride behind it, in full pages.
inline uint64_t WindowTokens(const ModelSequence& s, uint64_t page) {
  return (s.window + s.stride - 1) / page * page;
}

// Tokens of full pages that a layer may have when its prompt is done.
inline uint64_t AllowedInPrompt(const ModelSequence& s, size_t layer, uint64_t page) {
  if (s.windowed[layer]) return WindowTokens(s, page);
  return std::min(s.first_budget(layer), std::max(s.budget(layer), s.prompt / page * page));
}
// The same now.
inline uint64_t Allowed(const ModelSequence& s, size_t layer, const CacheGeometry& geometry) {
  const uint64_t page = geometry.page_tokens;
  if (s.in_prompt(geometry) || s.windowed[layer]) return AllowedInPrompt(s, layer, page);
  return std::max(s.budget(layer), s.fall.Left(layer, page));
}

inline bool IsOver(const ModelSequence& s, uint64_t page) {
  bool over = false;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    over |= s.evicts() && !s.windowed[i] && FullTokens(s.layers[i], page) > s.budget(i);
  }
  return over;
}

// Whether a drop is due in decode, unless a plan is in flight.
inline bool DropIsDue(const ModelSequence& s, const CacheGeometry& geometry) {
  bool due = false;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    if (s.windowed[i]) continue;
    const uint64_t most = s.fall.waits() ? Allowed(s, i, geometry) : s.budget(i);
    due |= FullTokens(s.layers[i], geometry.page_tokens) > most;
  }
  return due && s.evicts() && s.logical >= s.prompt;
}

// Each layer may begin with what it may have now, as far as it has that.
inline void BeginFall(ModelSequence& s, const CacheGeometry& geometry) {
  ModelFall fall = {.begun = s.plan.has_value()};
  for (size_t i = 0; i < s.layers.size(); ++i) {
    fall.held.push_back(FullTokens(s.layers[i], geometry.page_tokens));
  }
  s.fall = IsOver(s, geometry.page_tokens) ? fall : ModelFall();
}

// A plan was acknowledged that dropped blocks.
inline void NoteDrop(ModelSequence& s, uint64_t page) {
  ++s.fall.plans;
  if (!IsOver(s, page)) s.fall = {};
}

// The lowest budget that an order may name: the protected tokens and the represented ones fit. With
// shares, whose rounding makes the lowest one hard to restate, it is the code's own.
inline uint64_t LeastBudget(const ModelSequence& s, uint64_t window, float represented,
                            uint32_t page) {
  const bool shares = s.cache.shares.prompt > 0 || s.cache.shares.ends > 0;
  if (shares) return policy::MinBudget(s.cache, page).value();
  for (uint64_t budget = page;; budget += page) {
    const auto others = static_cast<uint64_t>(double{represented} * static_cast<double>(budget));
    if (Protected(s, budget, window, page) + others <= budget) return budget;
  }
}

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_MODEL_BUDGETS_H_
