// HostSwap is the part of a manager session that copies the pages of sequences to swap memory when
// they are parked, and back when they continue.
//
// The manager offers slots when it asks for a sequence's pages. The copies are ordered with the
// steps, so a sequence is busy until they are done: it is neither parked nor closed before, and no
// plan of it is acknowledged.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_HOST_SWAP_H_
#define FOLIO_SERVICES_WORKER_ENGINE_HOST_SWAP_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/model/executor/block_tables.h"
#include "services/model/executor/executor.h"

namespace folio::worker {

// One caller thread, the step loop's.
class HostSwap {
 public:
  // Borrows the executor, whose pool has `num_slots` slots of swap memory.
  HostSwap(model::Executor* executor, uint32_t num_slots)
      : executor_(executor), num_slots_(num_slots) {}

  bool enabled() const { return num_slots_ > 0; }

  // The sequence is to be parked, and these slots are for its pages. An offer of slots that are not
  // there is ignored, and its sequence is computed again.
  void OnOffer(const SwapOffer& offer);
  // Its pages are still to be copied.
  bool Waits(SequenceId sequence) const;
  // Copies the pages with tokens. No step in flight touches them, and `enqueued` steps have been
  // enqueued. Returns the count of the step after which the copies are there.
  uint64_t CopyOut(SequenceId sequence, const model::BlockTables& table, uint64_t enqueued);
  // Forgets the offer. True if the pages were copied.
  bool Take(SequenceId sequence);

  // OK if each layer's slots are in the swap memory, and as many as the layer has pages with
  // tokens; else INTERNAL.
  absl::Status Validate(const std::vector<ClaimedLayer>& layers,
                        const CacheGeometry& geometry) const;
  // Copies slots to the layers' first pages, and returns as CopyOut does.
  uint64_t CopyIn(const std::vector<ClaimedLayer>& layers, uint64_t enqueued);

 private:
  struct Offered {
    std::vector<SwapSlot> slots;
    bool copied = false;
  };

  // The step after which a copy that is made now is done.
  uint64_t DoneAfter(uint64_t enqueued) const {
    return executor_->pipeline_depth() > 0 ? enqueued + 1 : enqueued;
  }

  model::Executor* const executor_;
  const uint32_t num_slots_;
  std::map<SequenceId, Offered> offers_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_HOST_SWAP_H_
