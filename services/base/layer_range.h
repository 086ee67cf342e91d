// LayerRange is a stretch of a model's layers.
#ifndef FOLIO_SERVICES_BASE_LAYER_RANGE_H_
#define FOLIO_SERVICES_BASE_LAYER_RANGE_H_

#include <cstddef>
#include <cstdint>

namespace folio {

// The layers [begin, end).
struct LayerRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool contains(size_t layer) const { return begin <= layer && layer < end; }
  bool contains(const LayerRange& other) const { return begin <= other.begin && other.end <= end; }
  uint32_t size() const { return end - begin; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// Those of any model.
inline constexpr LayerRange kAllLayers = {0, UINT32_MAX};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_LAYER_RANGE_H_
