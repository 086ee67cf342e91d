// What every executor does that runs steps itself: its slots' tables are the host's, whatever
// device computes over them.
#ifndef FOLIO_SERVICES_MODEL_SLOT_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_SLOT_EXECUTOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/views.h"
#include "services/model/executor.h"
#include "services/model/slot_states.h"

namespace folio::model {

class SlotExecutor : public Executor {
 public:
  SlotId Acquire(kernels::ScoreKind score) override { return slots_.Acquire(score); }
  void ExtendTables(SlotId slot, const std::vector<std::vector<PageRef>>& pages) override {
    slots_.at(slot).table.Extend(pages);
  }
  void Restore(SlotId slot, const std::vector<std::vector<PageRef>>& pages,
               const std::vector<std::vector<PositionRun>>& positions) override {
    slots_.at(slot).table.Restore(pages, positions);
  }
  void DropBlocks(SlotId slot, const std::vector<std::optional<BlockIndex>>& block) override {
    slots_.at(slot).table.DropBlocks(block);
  }
  void Release(SlotId slot) override { slots_.Release(slot); }

  PageRef NewestPage(SlotId slot, LayerIndex layer) const override {
    return slots_.table(slot).NewestPage(layer);
  }
  uint32_t resident(SlotId slot, LayerIndex layer) const override {
    return slots_.table(slot, layer).resident(layer);
  }
  uint32_t pages(SlotId slot, LayerIndex layer) const override {
    return static_cast<uint32_t>(slots_.table(slot, layer).pages(layer).size());
  }
  uint32_t free_tokens(SlotId slot) const override { return slots_.table(slot).free_tokens(); }
  uint64_t TableDigest(SlotId slot) const override { return slots_.table(slot).Digest(); }

 protected:
  explicit SlotExecutor(const kernels::PoolView& pool) : slots_(pool) {}

  SlotStates slots_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SLOT_EXECUTOR_H_
