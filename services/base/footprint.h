// Footprint says how many pages of one layer a sequence gets, and how many it may need in the rest
// of its life. It is pure arithmetic, in 64 bits so that no request can overflow it.
//
// A prompt gets the pages of the chunks that come next, and at its end those of all its tokens and
// one ahead. In decode a layer gets its newest page
// and one ahead. The page ahead is there because a step that fills a page is followed at once by
// the next step, which must have room before the manager's reply arrives. It also lets decode
// continue while a plan waits, since an eviction runs beside the steps.
//
// A policy that evicts therefore needs at most its budget and two pages after the prompt is
// compacted: the page being filled and the one ahead. A layer gets only pages that the tokens still
// to come can fill.
#ifndef FOLIO_SERVICES_BASE_FOOTPRINT_H_
#define FOLIO_SERVICES_BASE_FOOTPRINT_H_

#include <algorithm>
#include <cstdint>

namespace folio {

class Footprint {
 public:
  // `budget` is in tokens and a multiple of `page_tokens`. With 0 nothing is ever evicted.
  constexpr Footprint(uint64_t page_tokens, uint64_t budget)
      : page_tokens_(page_tokens),
        max_pages_(budget == 0 ? UINT64_MAX : budget / page_tokens + kPagesOverBudget) {}

  // For a prompt of `prompt` tokens before it is compacted, with `remaining` more to come.
  constexpr uint64_t ForPrompt(uint64_t prompt, uint64_t remaining) const {
    return std::min(Pages(prompt) + 1, Pages(prompt + remaining));
  }
  // For the first `tokens` of a prompt, while later ones need no page yet.
  constexpr uint64_t ForPromptPart(uint64_t tokens) const { return Pages(tokens); }
  // In decode with `resident` tokens and `remaining` more to come.
  constexpr uint64_t TargetPages(uint64_t resident, uint64_t remaining) const {
    return std::min(resident / page_tokens_ + 2, MaxPages(resident, remaining));
  }
  // The largest value of TargetPages in the rest of the sequence's life.
  constexpr uint64_t MaxPages(uint64_t resident, uint64_t remaining) const {
    return std::min(max_pages_, Pages(resident + remaining));
  }
  // Pages over the budget: the one being filled and the one ahead.
  static constexpr uint64_t kPagesOverBudget = 2;

 private:
  constexpr uint64_t Pages(uint64_t tokens) const {
    return (tokens + page_tokens_ - 1) / page_tokens_;
  }

  uint64_t page_tokens_;
  uint64_t max_pages_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_FOOTPRINT_H_
