// SequenceFootprint is how many pages a sequence with given settings and lengths may need in its
// life, and the lengths at which its prompt stops to be compacted. It depends on nothing that
// happens later. services/base/footprint.h has the arithmetic of one layer.
//
// Thread-compatible.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_FOOTPRINT_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_FOOTPRINT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "services/base/footprint.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/prompt_stops.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

class SequenceFootprint {
 public:
  // The worker computes up to `prefill_ahead` tokens of the prompt at a time (0: all), which
  // matters for layers with a window. Precondition: the settings are valid, and say how the prompt
  // is compacted.
  SequenceFootprint(const policy::CacheConfig& cache, const CacheGeometry& geometry,
                    uint32_t prompt_tokens, uint32_t max_new_tokens, TokenCount prefill_ahead);

  const Footprint& layer(size_t layer) const { return layers_[layer].footprint; }
  const PromptStops& stops() const { return stops_; }
  // From now on such a worker may compute it. True if it may need more pages than before.
  bool Widen(TokenCount prefill_ahead);
  TokenCount prefill_ahead() const { return prefill_ahead_; }

  // The prompt is longer than the budget of the layer, or of some layer.
  bool compacts(size_t layer) const { return layers_[layer].compacts; }
  bool compacts() const { return compacts_; }

  // The most pages that a layer holds during the prompt, the one ahead included.
  uint64_t MostInPrompt(size_t layer) const;
  // The most pages of the whole life, in a layer and over all layers.
  uint64_t WorstCase(size_t layer) const;
  uint64_t WorstCase() const;

 private:
  struct Layer {
    Footprint footprint;
    uint64_t budget;  // 0 if no token ever goes
    bool windowed;    // the budget is that of its window
    bool compacts;
  };

  uint64_t page_tokens_;
  uint64_t prompt_tokens_;
  uint64_t max_new_tokens_;
  TokenCount prefill_ahead_;
  std::vector<Layer> layers_;
  bool compacts_ = false;
  PromptStops stops_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_FOOTPRINT_H_
