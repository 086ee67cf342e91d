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
  std::vector<std::vector<int32_t>> page_starts;  // those that differ, each [runs + 1], from 0
  std::vector<Layer> layers;
};

// Where a step's arrays lie on the device, and what the host must know of them.
struct LaidStep {
  uint32_t rows = 0;                              // padding included
  bool padded = false;                            // to a shape of decode steps
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

  // Puts what changes of the tables into `uploads` and the step's arrays into `inputs`, in which
  // steps of one shape have the same order and sizes. The tables are as they are before the step's
  // rows are written. With `padded_rows`, for decode rows alone, the batch is padded to so many by
  // rows that look at the first sequence's first token and are stored nowhere; 0: it is not.
  absl::StatusOr<LaidStep> Lay(const StepRows& rows, uint32_t padded_rows, CudaTables& tables,
                               kernels::cuda::Uploads& uploads,
                               kernels::cuda::Uploads& inputs) const;
  // What `inputs` gets of a padded step.
  static size_t InputBytes(uint32_t layers, uint32_t padded_rows);

  // Places of one layer's rows, once the runs are laid: [rows].
  kernels::cuda::DeviceArray<kernels::AppendSlot> slots(const LaidStep& step,
                                                        uint32_t layer) const {
    return {slots_.as<kernels::AppendSlot>() + size_t{layer} * step.rows, step.rows};
  }

 private:
  StepLayout(uint32_t layers, uint32_t page_tokens, uint32_t most_pages)
      : layers_(layers), page_tokens_(page_tokens), most_pages_(most_pages) {}

  using Segments = absl::Span<const StepRows::Segment>;
  // What is being laid, and how far.
  struct Laying {
    const CudaTables& tables;
    kernels::cuda::Uploads& inputs;
    uint32_t rows;                 // of the batch
    kernels::cuda::LaidRun* runs;  // the next, on the host
    size_t pages = 0;              // before the next run's
  };
  // The rows of some segments, and as many rows of padding.
  AttentionPart LayPart(Segments segments, uint32_t padding, Laying& laying) const;
  // `runs` are the step's, on the host.
  void LayWindows(const StepRows& rows, const kernels::cuda::LaidRun* runs,
                  kernels::cuda::Uploads& inputs, LaidStep& step) const;

  uint32_t layers_, page_tokens_, most_pages_;
  kernels::cuda::DeviceBuffer slots_;  // AppendSlot [layers][rows]
  kernels::cuda::DeviceBuffer pages_;  // int32_t, all layers' tables one after another
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_STEP_H_
