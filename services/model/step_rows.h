// One step's segments as rows of a batch: decode rows first, then prompt rows.
#ifndef FOLIO_SERVICES_MODEL_STEP_ROWS_H_
#define FOLIO_SERVICES_MODEL_STEP_ROWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "services/model/executor.h"
#include "services/model/model_source.h"
#include "services/model/slot_table.h"
#include "services/model/transformer.h"

namespace folio::model {

// Among the ids of a step's rows: the token that the row's sequence sampled last, which only the
// device knows.
inline constexpr uint32_t kTokenOnDevice = 0xffffffff;

// A sequence in an executor.
struct SlotState {
  SlotTable table;
  std::optional<TokenId> last_sampled;
  bool sampled_on_device = false;  // in place of `last_sampled`
  uint64_t last_step = 0;          // that it was part of
};

// Keeps its memory from step to step. Misuse (see Executor) is a CHECK. Not thread-safe.
class StepRows {
 public:
  struct Segment {
    const StepSegment* segment;
    SlotState* sequence;
    uint32_t first_row;
    uint32_t rows;
  };

  // A new step, numbered upwards from 1.
  void Begin(uint64_t step, const ModelConfig& config);
  // All decode segments before the first prompt. What is given is borrowed until the next Begin.
  void Add(const StepSegment& segment, SlotState& sequence);

  uint32_t count() const { return static_cast<uint32_t>(ids_.size()); }
  // One more than the largest logical position.
  uint32_t positions() const { return positions_; }
  absl::Span<const Segment> segments() const { return segments_; }
  // Those that want an output, in the order they have in the step's batch.
  std::vector<const Segment*> Wanted() const;

  // For Transformer::Forward.
  ForwardRows forward() const;
  void Place(LayerIndex layer, absl::Span<kernels::AppendSlot> slots,
             absl::Span<kernels::AttentionRun> runs) const;
  // The rows are written: their tokens are resident now.
  void Advance() const;

 private:
  uint64_t step_ = 0;
  const ModelConfig* config_ = nullptr;
  std::vector<Segment> segments_;
  std::vector<uint32_t> ids_;
  std::vector<ScoringRows> windows_;
  uint32_t decode_rows_ = 0;
  uint32_t positions_ = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_STEP_ROWS_H_
