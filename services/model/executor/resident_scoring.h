// ResidentScoring lists the scores that a step writes after its rows: of all resident tokens of
// some sequences, or of the pages that the step filled. Every device's executor runs its own
// kernels over these lists.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_RESIDENT_SCORING_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_RESIDENT_SCORING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/views.h"
#include "services/model/executor/block_tables.h"
#include "services/model/family/model_config.h"

namespace folio::model {

// One step at a time. It keeps its memory from step to step. Not thread-safe.
class ResidentScoring {
 public:
  // kUnrotatedDifference compares the tokens of a filled page with at most so many others, so that
  // the page costs the same in a sequence of any length. So many cost half a percent of a decode
  // step on a CPU. The evaluation tells no difference between 24, 64 and 256.
  static constexpr uint32_t kMaxSamples = 24;

  // `others` are the model's, if it has such layers.
  explicit ResidentScoring(const std::optional<OtherLayers>& others)
      : is_other_(others ? others->layers : std::vector<bool>()) {}

  void Clear();
  // Adds the wanted layers of a sequence whose table has the step's tokens already, without those
  // that have a window, which lose no token to a policy. `prompt` says that the step ends its
  // prompt. The lists point into the table, so it must not change while they are used.
  void Add(const BlockTables& table, bool prompt, const LayerRange& wanted);
  bool empty() const { return resident_.empty() && unrotated_.empty() && others_.empty(); }
  absl::Span<const kernels::ResidentItem> resident() const { return resident_; }
  // In layers that turn by the model's angles, and in the others.
  absl::Span<const kernels::UnrotatedItem> unrotated() const { return unrotated_; }
  absl::Span<const kernels::UnrotatedItem> unrotated_others() const { return others_; }

 private:
  void AddUnrotated(const BlockTables& table, uint32_t layer, bool prompt);

  std::vector<kernels::ResidentItem> resident_;
  std::vector<bool> is_other_;  // empty if no layer is
  std::vector<kernels::UnrotatedItem> unrotated_, others_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_RESIDENT_SCORING_H_
