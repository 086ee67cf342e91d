// SequenceFootprint is how many pages a sequence with given settings and lengths may need in its
// life, and the lengths at which its prompt stops to be compacted. It depends on nothing that
// happens later. services/base/footprint.h has the arithmetic of one layer.
//
// Immutable after construction.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_FOOTPRINT_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_FOOTPRINT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "services/base/footprint.h"
#include "services/base/geometry.h"
#include "services/base/prompt_stops.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

class SequenceFootprint {
 public:
  // Precondition: the settings are valid, and say how the prompt is compacted.
  SequenceFootprint(const policy::CacheConfig& cache, const CacheGeometry& geometry,
                    uint32_t prompt_tokens, uint32_t max_new_tokens);

  const Footprint& layer(size_t layer) const { return layers_[layer].footprint; }
  const PromptStops& stops() const { return stops_; }
  // The prompt is longer than the budget of the layer, or of some layer.
  bool compacts(size_t layer) const { return layers_[layer].compacts; }
  bool compacts() const { return compacts_; }

  // The most pages that a layer holds during the prompt, the one ahead included.
  uint64_t MostInPrompt(size_t layer) const;
  // The most pages of the whole life over all layers.
  uint64_t WorstCase() const;

 private:
  struct Layer {
    Footprint footprint;
    uint64_t budget;  // 0 if nothing is ever evicted
    bool compacts;
  };

  const uint64_t prompt_tokens_;
  const uint64_t max_new_tokens_;
  std::vector<Layer> layers_;
  bool compacts_ = false;
  PromptStops stops_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_FOOTPRINT_H_
