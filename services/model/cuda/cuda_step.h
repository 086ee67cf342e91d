// StepInputBuilder makes one step's batch into the arrays that the device's kernels read. It puts
// them into the step's uploads and says where they will lie on the device.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_STEP_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_STEP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/uploads.h"
#include "kernels/cuda/scores/scores.h"
#include "services/model/cuda/device_tables.h"
#include "services/model/executor/step_rows.h"

namespace folio::model {

// AttentionPart is neighbouring rows that one kind of kernel serves: decode rows or prompt rows.
struct AttentionPart {
  // A layer's tables, its window in tokens or 0, and the index of its lengths.
  struct Layer {
    kernels::cuda::LayerTables tables;
    uint32_t window = 0;
    uint32_t lengths = 0;
  };
  // Layers of equal lengths share a plan. Layers may hold different numbers of tokens in the same
  // number of pages. If a plan asks only for pages, as it does where every run is one row, these
  // are the tokens of whole ones, so that fewer layers need a plan of their own.
  struct Lengths {
    std::vector<int32_t> contexts;  // [runs] as a plan wants them
    uint32_t window = 0;
    friend bool operator==(const Lengths&, const Lengths&) = default;
  };
  uint32_t first_row = 0;
  uint32_t rows = 0;
  std::vector<int32_t> row_starts;  // [runs + 1]
  std::vector<Lengths> lengths;     // those that differ
  std::vector<Layer> layers;
};

// StepInputs says where a step's arrays lie on the device, and what the host must know about them.
struct StepInputs {
  uint32_t rows = 0;                              // padding included
  bool padded = false;                            // to a shape of decode steps
  std::vector<kernels::cuda::TableWrite> writes;  // to be sent
  kernels::cuda::DeviceArray<kernels::cuda::TableWrite> table_writes;
  kernels::cuda::DeviceArray<kernels::cuda::PlacedItem> runs;
  kernels::cuda::DeviceArray<uint32_t> ids;
  std::vector<AttentionPart> parts;                                      // of at least one row each
  std::vector<kernels::cuda::DeviceArray<kernels::WindowItem>> windows;  // [layers]
  kernels::cuda::WindowLimits window_limits;
};

// Holds the device memory of one step's arrays. Steps follow each other on one stream, so one set
// of arrays is enough.
class StepInputBuilder {
 public:
  // `max_pages` counts the pages of all tables of a step together. See PlansReadTokens for the last
  // one. Errors are DeviceMemory's.
  static absl::StatusOr<std::unique_ptr<StepInputBuilder>> Make(kernels::cuda::DeviceMemory& memory,
                                                                const CacheGeometry& geometry,
                                                                uint32_t max_rows,
                                                                uint32_t max_pages,
                                                                bool plans_read_tokens);

  // Puts changes of the tables into `uploads` and the step's arrays into `inputs`, where steps of
  // one shape have the same order and sizes. The tables do not have the step's rows yet. A batch of
  // decode rows may be padded to `padded_rows`, with rows that attend to the first sequence's first
  // token and are stored nowhere. 0 means no padding.
  absl::StatusOr<StepInputs> Build(const StepRows& rows, uint32_t padded_rows, DeviceTables& tables,
                                   kernels::cuda::Uploads& uploads,
                                   kernels::cuda::Uploads& inputs) const;
  // The size of what a padded step puts into `inputs`.
  static size_t InputBytes(uint32_t layers, uint32_t padded_rows);

  // The places of one layer's rows, [rows], valid after PlaceItems has run.
  kernels::cuda::DeviceArray<kernels::AppendSlot> slots(const StepInputs& step,
                                                        uint32_t layer) const {
    return {slots_.as<kernels::AppendSlot>() + size_t{layer} * step.rows, step.rows};
  }

 private:
  StepInputBuilder(const CacheGeometry& geometry, uint32_t max_pages, bool plans_read_tokens)
      : layers_(geometry.num_layers),
        page_tokens_(geometry.page_tokens),
        windows_(geometry.windows),
        max_pages_(max_pages),
        plans_read_tokens_(plans_read_tokens) {}

  using Segments = absl::Span<const StepRows::Segment>;
  // The state of a Build.
  struct Progress {
    const DeviceTables& tables;
    kernels::cuda::Uploads& inputs;
    uint32_t rows;                    // of the batch
    kernels::cuda::PlacedItem* runs;  // the next, on the host
    size_t pages = 0;                 // before the next run's
  };
  // Builds the part of some segments, and of `padding` rows more.
  AttentionPart BuildPart(Segments segments, uint32_t padding, Progress& progress) const;
  // `runs` are the step's, on the host.
  void BuildWindows(const StepRows& rows, const kernels::cuda::PlacedItem* runs,
                    kernels::cuda::Uploads& inputs, StepInputs& step) const;

  uint32_t layers_, page_tokens_;
  LayerWindows windows_;
  uint32_t max_pages_;
  bool plans_read_tokens_;
  kernels::cuda::DeviceBuffer slots_;  // AppendSlot [layers][rows]
  kernels::cuda::DeviceBuffer pages_;  // int32_t, all layers' tables one after another
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_STEP_H_
