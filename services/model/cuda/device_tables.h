// DeviceTables mirrors the sequences' block tables in device memory. The copies stay there from
// step to step, and a step writes only the pages that have changed since the sequence's last step:
// a table of a long sequence is large, and most steps add at most one page to it.
#ifndef FOLIO_SERVICES_MODEL_CUDA_DEVICE_TABLES_H_
#define FOLIO_SERVICES_MODEL_CUDA_DEVICE_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/uploads.h"
#include "services/base/ids.h"
#include "services/model/executor/block_tables.h"
#include "services/model/executor/table_edit.h"

namespace folio::model {

// The memory is freed with this object only, so that it outlives the steps that read it. Not
// thread-safe.
class DeviceTables {
 public:
  // `max_pages` is the most that one sequence may have in one layer.
  DeviceTables(kernels::cuda::DeviceMemory& memory, uint32_t layers, uint32_t max_pages)
      : memory_(memory), layers_(layers), max_pages_(max_pages) {}

  // Adds to `writes` what makes the device's copy equal to `table`, allocates memory for it where
  // needed, and notes in `table` that it is mirrored. RESOURCE_EXHAUSTED: there is no memory.
  // INTERNAL: a layer has too many pages.
  absl::Status Sync(SequenceSlot slot, BlockTables& table, kernels::cuda::Uploads& uploads,
                    std::vector<kernels::cuda::TableWrite>& writes);
  // The copy on the device of a slot that was synced.
  const uint32_t* table(SequenceSlot slot, LayerIndex layer) const { return Place(slot, layer); }

 private:
  static constexpr uint32_t kSlabSlots = 16;

  uint32_t* Place(SequenceSlot slot, LayerIndex layer) const;

  kernels::cuda::DeviceMemory& memory_;
  uint32_t layers_, max_pages_;
  std::vector<kernels::cuda::DeviceBuffer> slabs_;  // [slot of the slab][layer][max_pages]
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_DEVICE_TABLES_H_
