// StepRows makes one step's segments into the rows of a batch: decode rows first, then prompt rows.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_STEP_ROWS_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_STEP_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/model/executor/executor.h"
#include "services/model/executor/forward_rows.h"
#include "services/model/executor/sequence_tables.h"
#include "services/model/family/model_config.h"

namespace folio::model {

// Stands in a row's id for the token that its sequence sampled last, which only the device knows
// yet: a device that runs behind the host feeds it to the next step itself.
inline constexpr uint32_t kTokenOnDevice = 0xffffffff;

// Keeps its memory from step to step. Misuse (see Executor) is a CHECK. Not thread-safe.
class StepRows {
 public:
  struct Segment {
    const StepSegment* segment;
    SequenceState* sequence;
    uint32_t first_row;
    uint32_t rows;
  };

  // A new step, numbered upwards from 1.
  void Begin(uint64_t step, const ModelConfig& config);
  // All decode segments come before the first prompt. Both arguments are borrowed until the next
  // Begin.
  void Add(const StepSegment& segment, SequenceState& sequence);

  uint32_t count() const { return static_cast<uint32_t>(ids_.size()); }
  // One more than the largest logical position.
  uint32_t positions() const { return positions_; }
  absl::Span<const Segment> segments() const { return segments_; }
  // The segments that want an output, in their order in the step's batch.
  std::vector<const Segment*> Wanted() const;

  // For Transformer::Forward. The memory behind the runs is valid until the next Place.
  ForwardRows forward() const;
  void Place(LayerIndex layer, absl::Span<kernels::AppendSlot> slots,
             absl::Span<kernels::AttentionItem> runs);
  // The pages to clear before the rows are written. A second call returns none.
  std::vector<uint32_t> TakeUncleared() const;
  // Counts the tokens of the rows as resident, after the kernels that write them were enqueued.
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

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_STEP_ROWS_H_
