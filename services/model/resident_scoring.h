// Scores that a step writes after its rows: of all resident tokens of some sequences, or of the
// pages that it filled.
#ifndef FOLIO_SERVICES_MODEL_RESIDENT_SCORING_H_
#define FOLIO_SERVICES_MODEL_RESIDENT_SCORING_H_

#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/ops.h"
#include "services/model/slot_table.h"

namespace folio::model {

// One step at a time; keeps its memory from step to step.
class ResidentScoring {
 public:
  void Clear();
  // A sequence whose table has the step's tokens; `prompt`: the step ends its prompt. The table
  // must not change before Run.
  void Add(const SlotTable& table, bool prompt);
  bool empty() const { return resident_.empty() && unrotated_.empty(); }
  // What there is to do, in the tables' memory.
  absl::Span<const kernels::ResidentRun> resident() const { return resident_; }
  absl::Span<const kernels::UnrotatedRun> unrotated() const { return unrotated_; }

  // All layers of all sequences at once: enough tasks for any number of threads.
  void Run(const kernels::cpu::CpuOps& ops, kernels::cpu::ThreadPool& threads,
           const kernels::cpu::RopeTable& rope, const kernels::PoolView& pool) const;

 private:
  std::vector<kernels::ResidentRun> resident_;
  std::vector<kernels::UnrotatedRun> unrotated_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_RESIDENT_SCORING_H_
