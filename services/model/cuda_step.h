// One step's batch as the device's kernels want it: what is sent to the device before the step, and
// where its arrays then lie.
#ifndef FOLIO_SERVICES_MODEL_CUDA_STEP_H_
#define FOLIO_SERVICES_MODEL_CUDA_STEP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/scores.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/uploads.h"
#include "services/model/cuda_tables.h"
#include "services/model/step_rows.h"

namespace folio::model {

// Neighbouring rows that attend by one kind of kernel: decode rows or prompt rows.
struct AttentionPart {
  // A layer's tables, and which of the lengths below they have.
  struct Layer {
    kernels::cuda::LayerTables tables;
    uint32_t lengths = 0;
  };
  uint32_t first_row = 0;
  uint32_t rows = 0;
  std::vector<int32_t> row_starts;                // [runs + 1]
  std::vector<std::vector<int32_t>> page_starts;  // those that differ, each [runs + 1]
  std::vector<Layer> layers;
};

// Where a step's arrays lie on the device, and what the host must know of them.
struct LaidStep {
  uint32_t rows = 0;
  std::vector<kernels::cuda::TableWrite> writes;  // to be sent
  kernels::cuda::DeviceArray<kernels::cuda::TableWrite> table_writes;
  kernels::cuda::DeviceArray<kernels::cuda::LaidRun> runs;
  kernels::cuda::DeviceArray<uint32_t> ids;
  std::vector<AttentionPart> parts;                                     // of at least one row each
  std::vector<kernels::cuda::DeviceArray<kernels::WindowRun>> windows;  // [layers]
  kernels::cuda::WindowLimits window_limits;
};

// Holds what the device keeps of one step: steps follow each other on one stream.
class StepLayout {
 public:
  // `most_pages`: of all tables of a step together. Errors as DeviceMemory's.
  static absl::StatusOr<std::unique_ptr<StepLayout>> Make(kernels::cuda::DeviceMemory& memory,
                                                          uint32_t layers, uint32_t page_tokens,
                                                          uint32_t max_rows, uint32_t most_pages);

  // Puts the step's arrays into `uploads`. The tables are as they are before the step's rows are
  // written.
  absl::StatusOr<LaidStep> Lay(const StepRows& rows, CudaTables& tables,
                               kernels::cuda::Uploads& uploads) const;

  // Places of one layer's rows, once the runs are laid: [rows].
  kernels::cuda::DeviceArray<kernels::AppendSlot> slots(const LaidStep& step,
                                                        uint32_t layer) const {
    return {slots_.as<kernels::AppendSlot>() + size_t{layer} * step.rows, step.rows};
  }

 private:
  StepLayout(uint32_t layers, uint32_t page_tokens, uint32_t most_pages)
      : layers_(layers), page_tokens_(page_tokens), most_pages_(most_pages) {}

  using Segments = absl::Span<const StepRows::Segment>;
  // The rows of some segments; their runs are added to `runs`. `at` counts pages that were laid.
  AttentionPart LayPart(Segments segments, uint32_t rows_in_all, const CudaTables& tables,
                        kernels::cuda::Uploads& uploads, size_t& at,
                        std::vector<kernels::cuda::LaidRun>& runs) const;
  void LayWindows(const StepRows& rows, const std::vector<const int32_t*>& pages,
                  kernels::cuda::Uploads& uploads, LaidStep& step) const;

  uint32_t layers_, page_tokens_, most_pages_;
  kernels::cuda::DeviceBuffer slots_;  // AppendSlot [layers][rows]
  kernels::cuda::DeviceBuffer pages_;  // int32_t, each layer's tables one after another
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_STEP_H_
