// Sequences' tables of pages on the device, which stay there from step to step: what changed since
// the last step of a sequence is written, no more.
#ifndef FOLIO_SERVICES_MODEL_CUDA_TABLES_H_
#define FOLIO_SERVICES_MODEL_CUDA_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/uploads.h"
#include "services/common/ids.h"
#include "services/model/executor.h"
#include "services/model/slot_table.h"

namespace folio::model {

// The memory lives as long as this does, so as to outlive the steps that read it. Not thread-safe.
class CudaTables {
 public:
  // `most_pages`: of one sequence in one layer.
  CudaTables(kernels::cuda::DeviceMemory& memory, uint32_t layers, uint32_t most_pages)
      : memory_(memory), layers_(layers), most_pages_(most_pages) {}

  // The slot begins anew: nothing the device has of it holds.
  void Reset(SlotId slot);
  // Only the layer's first `pages` still hold.
  void Cut(SlotId slot, LayerIndex layer, uint32_t pages);

  // Adds to `writes` what makes the device's tables equal to `table`, and makes room for them.
  // RESOURCE_EXHAUSTED: there is no memory, or a layer has too many pages.
  absl::Status Sync(SlotId slot, const SlotTable& table, kernels::cuda::Uploads& uploads,
                    std::vector<kernels::cuda::TableWrite>& writes);
  // The device's, of a slot that was synced.
  const uint32_t* table(SlotId slot, LayerIndex layer) const { return Place(slot, layer); }

 private:
  static constexpr uint32_t kSlabSlots = 16;

  uint32_t* Place(SlotId slot, LayerIndex layer) const;
  uint32_t& held(SlotId slot, LayerIndex layer);

  kernels::cuda::DeviceMemory& memory_;
  uint32_t layers_, most_pages_;
  std::vector<kernels::cuda::DeviceBuffer> slabs_;  // [slot of the slab][layer][most_pages]
  std::vector<uint32_t> held_;                      // [slot][layer] pages that the device has right
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_TABLES_H_
