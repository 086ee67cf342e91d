// The rules of policy/shares.h and agreement.h with plain lists: which configurations are taken,
// which blocks stay by shares of the budget, and where the stretches end that have quotas.
#ifndef FOLIO_TESTS_FUZZ_MODEL_SHARES_H_
#define FOLIO_TESTS_FUZZ_MODEL_SHARES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>
#include <vector>

#include "services/base/ids.h"
#include "tests/fuzz/model_sequence.h"

namespace folio::cache {

// Tokens of a share of a budget.
inline uint64_t ShareTokens(uint64_t budget, float share, uint32_t page) {
  if (share == 0) return 0;
  const auto pages = static_cast<uint64_t>(std::lround(double{share} * budget / page));
  return std::max<uint64_t>(pages, 1) * page;
}

// Whether its policy goes with what it asks of shares and layers, whatever the budget is.
// `represented` is the share that KVCrush gives to others than the highest.
inline bool TakesShares(const ModelSequence& s, float represented) {
  const policy::Shares& shares = s.cache.shares;
  const bool shared_layers = s.cache.layers == policy::Layers::kShared;
  if (shared_layers && (!s.evicts() || !s.cache.layer_budgets.empty())) return false;
  if (shares == policy::Shares{}) return true;
  const bool ranks = !std::holds_alternative<policy::StreamingLlmSpec>(s.cache.policy.spec());
  const bool asks = shares.prompt > 0 || shares.ends > 0;
  return s.evicts() && shares.prompt <= 0.9F && shares.ends <= 0.4F &&
         (ranks || shares.segments == 1) &&
         (!asks || std::max(shares.prompt, 2 * shares.ends) + represented <= 0.95F);
}

// The tokens of a budget that are protected, in a compaction with `recent_of_policy` at its end or
// in decode.
inline uint64_t Protected(const ModelSequence& s, uint64_t budget, uint64_t recent_of_policy,
                          uint32_t page) {
  const uint64_t sink = s.cache.sink.value();
  const uint64_t recent = s.cache.recent.value();
  const uint64_t end = ShareTokens(budget, s.cache.shares.ends, page);
  const uint64_t prompt = ShareTokens(budget, s.cache.shares.prompt, page);
  const uint64_t first = std::max(sink, end);
  const uint64_t compaction = first + std::max({recent, recent_of_policy, end});
  const uint64_t decode = std::max({sink, prompt, end > 0 ? first + end : 0}) + recent;
  return std::max(compaction, decode);
}

// Whether shares of the budget keep this block from going in decode.
inline bool IsShared(const ModelSequence& s, size_t at, uint64_t block, uint32_t page) {
  const std::vector<uint32_t>& positions = s.layers[at].positions;
  uint64_t blocks = 0;
  while (blocks * page < positions.size() && positions[blocks * page] < s.prompt) ++blocks;
  if (block >= blocks) return false;
  const uint64_t budget = s.budget(at);
  if (blocks * page <= ShareTokens(budget, s.cache.shares.prompt, page)) return true;
  const uint64_t end = ShareTokens(budget, s.cache.shares.ends, page) / page;
  return block < end || block + end >= blocks;
}

// Tokens of the layer whose positions are before `position`.
inline uint32_t TokensBefore(const ModelLayer& layer, uint64_t position) {
  const auto& all = layer.positions;
  return static_cast<uint32_t>(std::lower_bound(all.begin(), all.end(), position) - all.begin());
}

inline std::vector<TokenSlot> StretchEnds(const ModelSequence& s, const ModelLayer& layer) {
  const uint64_t stretches = s.cache.shares.segments;
  std::vector<TokenSlot> ends;
  for (uint64_t i = 1; i <= stretches && stretches > 1; ++i) {
    ends.emplace_back(TokensBefore(layer, uint64_t{s.logical} * i / stretches));
  }
  return ends;
}

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_MODEL_SHARES_H_
