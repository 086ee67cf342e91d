#include "services/worker/engine/survivors.h"

namespace folio::worker {

std::vector<Eviction::Layer> Survivors::Keep(const CompactAction& action,
                                             const model::BlockTables& table, TokenCount seen) {
  std::vector<Eviction::Layer> kept(layers_.size());
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    std::vector<Position>& known = layers_[layer];
    const uint32_t gone = seen.value() - table.resident(LayerIndex(layer));
    std::vector<Position>& positions = kept[layer].kept;
    positions.reserve(action.keep[layer].size());
    for (const TokenSlot slot : action.keep[layer]) {
      const bool survived = slot.value() < known.size();
      positions.push_back(survived ? known[slot.value()] : Position(slot.value() + gone));
    }
    known = positions;
  }
  return kept;
}

}  // namespace folio::worker
