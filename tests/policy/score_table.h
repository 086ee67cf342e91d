// ScoreTable is the scores of one layer, laid out in pages as on the score board.
#ifndef FOLIO_TESTS_POLICY_SCORE_TABLE_H_
#define FOLIO_TESTS_POLICY_SCORE_TABLE_H_

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "services/policy/policy.h"

namespace folio::policy {

class ScoreTable {
 public:
  // `rows`: [tokens][kv_heads]. Rows without a token are NaN, so that reading one shows.
  ScoreTable(std::vector<std::vector<float>> rows, uint32_t page_tokens)
      : page_tokens_(page_tokens), kv_heads_(static_cast<uint32_t>(rows.at(0).size())) {
    tokens_ = static_cast<uint32_t>(rows.size());
    const size_t page_floats = size_t{page_tokens} * kv_heads_;
    memory_.assign((rows.size() + page_tokens - 1) / page_tokens * page_floats,
                   std::numeric_limits<float>::quiet_NaN());
    for (size_t token = 0; token < rows.size(); ++token) {
      for (size_t head = 0; head < kv_heads_; ++head) {
        memory_[token * kv_heads_ + head] = rows[token][head];
      }
    }
    for (size_t at = 0; at < memory_.size(); at += page_floats) pages_.push_back(&memory_[at]);
  }
  ScoreTable(const ScoreTable&) = delete;
  ScoreTable& operator=(const ScoreTable&) = delete;

  LayerScores view() const {
    return {.pages = pages_,
            .page_tokens = page_tokens_,
            .kv_heads = kv_heads_,
            .tokens = TokenCount(tokens_),
            .scored = TokenCount(tokens_)};
  }
  // Only the tokens of whole pages.
  LayerScores whole_pages() const {
    LayerScores whole = view();
    whole.tokens = whole.scored = TokenCount(tokens_ / page_tokens_ * page_tokens_);
    return whole;
  }

 private:
  uint32_t page_tokens_;
  uint32_t kv_heads_;
  uint32_t tokens_;
  std::vector<float> memory_;
  std::vector<const float*> pages_;
};

// One head, one score per token.
inline std::vector<std::vector<float>> OneHead(const std::vector<float>& scores) {
  std::vector<std::vector<float>> rows;
  rows.reserve(scores.size());
  for (float score : scores) rows.push_back({score});
  return rows;
}

inline std::vector<uint32_t> Values(const std::vector<TokenSlot>& slots) {
  std::vector<uint32_t> values;
  values.reserve(slots.size());
  for (TokenSlot slot : slots) values.push_back(slot.value());
  return values;
}

inline Limits MakeLimits(uint32_t budget, uint32_t sink, uint32_t recent) {
  return {TokenCount(budget), TokenCount(sink), TokenCount(recent)};
}

}  // namespace folio::policy

#endif  // FOLIO_TESTS_POLICY_SCORE_TABLE_H_
