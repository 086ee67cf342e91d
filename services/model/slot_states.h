// The sequences that an executor holds, by slot.
#ifndef FOLIO_SERVICES_MODEL_SLOT_STATES_H_
#define FOLIO_SERVICES_MODEL_SLOT_STATES_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/views.h"
#include "services/common/check.h"
#include "services/model/executor.h"
#include "services/model/step_rows.h"

namespace folio::model {

// A slot that is not held is a CHECK. Not thread-safe.
class SlotStates {
 public:
  explicit SlotStates(const kernels::PoolView& pool) : pool_(pool) {}

  // The lowest slot that is free.
  SlotId Acquire(kernels::ScoreKind score) {
    uint32_t slot = 0;
    while (slot < held_.size() && held_[slot].has_value()) ++slot;
    if (slot == held_.size()) held_.emplace_back();
    held_[slot] = SlotState{SlotTable(pool_, score), std::nullopt};
    return SlotId(slot);
  }
  void Release(SlotId slot) {
    at(slot);
    held_[slot.value()].reset();
  }

  SlotState& at(SlotId slot) {
    FOLIO_CHECK(slot.value() < held_.size() && held_[slot.value()].has_value());
    return *held_[slot.value()];
  }
  const SlotTable& table(SlotId slot) const {
    return const_cast<SlotStates*>(this)->at(slot).table;
  }
  // With a layer that there is.
  const SlotTable& table(SlotId slot, LayerIndex layer) const {
    FOLIO_CHECK(layer.value() < pool_.geometry.num_layers);
    return table(slot);
  }

 private:
  kernels::PoolView pool_;
  std::vector<std::optional<SlotState>> held_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SLOT_STATES_H_
