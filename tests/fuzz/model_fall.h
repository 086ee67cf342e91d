// ModelFall is how a sequence of CacheModel comes down to a budget that an operator lowered.
#ifndef FOLIO_TESTS_FUZZ_MODEL_FALL_H_
#define FOLIO_TESTS_FUZZ_MODEL_FALL_H_

#include <cstdint>
#include <vector>

namespace folio::cache {

struct ModelFall {
  std::vector<uint64_t> held = {};  // tokens of each layer's full pages at the beginning
  uint64_t plans = 0;               // acknowledged since
  bool begun = false;               // some plan was made since, or in flight

  bool active() const { return !held.empty(); }
  // No plan is due before a page is full.
  bool waits() const { return active() && !begun; }
  // It is what was held at the beginning, less a page with every second plan.
  uint64_t Left(size_t layer, uint64_t page) const {
    if (!active()) return 0;
    const uint64_t gone = plans / 2 * page;
    return gone < held[layer] ? held[layer] - gone : 0;
  }
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_MODEL_FALL_H_
