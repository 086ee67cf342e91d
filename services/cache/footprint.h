// How many pages of one layer a sequence is given, and how many it is promised. Pure arithmetic, in
// 64 bits, so that no request can overflow it.
//
// A prompt is given the pages of all its tokens and one ahead. In decode a layer is given its
// newest page and one ahead, so that the step after a filled page waits for no answer. A policy
// that evicts never needs more than its budget and two pages once the prompt is compacted. Nobody
// is given pages that the tokens still to come cannot fill.
#ifndef FOLIO_SERVICES_CACHE_FOOTPRINT_H_
#define FOLIO_SERVICES_CACHE_FOOTPRINT_H_

#include <algorithm>
#include <cstdint>

namespace folio::cache {

class Footprint {
 public:
  // `budget` in tokens, a multiple of `page_tokens`; 0: nothing is ever evicted.
  constexpr Footprint(uint64_t page_tokens, uint64_t budget)
      : page_tokens_(page_tokens),
        most_(budget == 0 ? UINT64_MAX : budget / page_tokens + kPagesOverBudget) {}

  // For a prompt of `prompt` tokens before it is compacted, with `remaining` more to come.
  constexpr uint64_t ForPrompt(uint64_t prompt, uint64_t remaining) const {
    return std::min(Pages(prompt) + 1, Pages(prompt + remaining));
  }
  // In decode with `resident` tokens and `remaining` more to come.
  constexpr uint64_t Now(uint64_t resident, uint64_t remaining) const {
    return std::min(resident / page_tokens_ + 2, Ever(resident, remaining));
  }
  // The most that Now can become in the rest of the sequence's life.
  constexpr uint64_t Ever(uint64_t resident, uint64_t remaining) const {
    return std::min(most_, Pages(resident + remaining));
  }
  // Pages over the budget: the one being filled and the one ahead.
  static constexpr uint64_t kPagesOverBudget = 2;

 private:
  constexpr uint64_t Pages(uint64_t tokens) const {
    return (tokens + page_tokens_ - 1) / page_tokens_;
  }

  uint64_t page_tokens_;
  uint64_t most_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_FOOTPRINT_H_
