#include "services/worker/held_matrices.h"

#include "services/runtime/logging.h"

namespace folio::worker {

void LogHeldMatrices(const LoadedModel& model) {
  const model::HeldMatrices* held = model.held();
  if (held == nullptr) return;
  if (held->as_stored > 0) {
    log::Info("matrices are held as they are stored, except the first layer's Q, K and V",
              {{"matrices", held->as_stored}});
  }
  for (const auto& [reason, matrices] : held->in_bfloat16) {
    log::Warning("quantised matrices are held in bfloat16",
                 {{"matrices", matrices}, {"reason", reason}});
  }
}

}  // namespace folio::worker
