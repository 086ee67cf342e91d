// Agreement makes one ranking of the rankings of several layers, for sequences whose layers decide
// together (Layers::kShared). A fact is of use only if the same tokens are there in many layers at
// once, and layers that decide alone rarely keep the same ones.
//
// Layers measure on scales of their own, so each layer's numbers count as z-scores: their distance
// from the layer's mean in standard deviations. The agreed number is the mean of the layers'
// z-scores. The mean and the deviation are those of the range that may be evicted, because the
// numbers of attention sinks are extreme and would set the scale. A layer whose numbers are all the
// same has no say. A token that is lowest (-inf) in one layer is lowest, and any other that is
// highest (+inf) in one layer is highest.
//
// TriAttention (arXiv 2604.04921) shares its decisions among the layers by z-scores too. Cost:
// three passes over the numbers of each layer.
#ifndef FOLIO_SERVICES_POLICY_AGREEMENT_H_
#define FOLIO_SERVICES_POLICY_AGREEMENT_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "services/policy/policy.h"

namespace folio::policy {

class Agreement {
 public:
  // The numbers [begin, end) of each layer may be evicted.
  Agreement(size_t begin, size_t end) : begin_(begin), end_(end) {}

  // Every layer gives as many numbers, free of NaN.
  void Add(absl::Span<const float> layer);
  // The agreed numbers, which are 0 outside the range. They are sums, because the number of layers
  // is the same for all of them.
  std::vector<float> Take() && { return std::move(sums_); }

 private:
  const size_t begin_;
  const size_t end_;
  std::vector<float> sums_;
};

// Returns the numbers of a single layer, else the agreement of the layers in [begin, end).
std::vector<float> Agreed(LayerGroup layers, size_t begin, size_t end,
                          absl::FunctionRef<std::vector<float>(const LayerScores&)> numbers);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_AGREEMENT_H_
