#include "services/worker/held_matrices.h"

#include "absl/strings/str_cat.h"
#include "services/runtime/logging.h"

namespace folio::worker {

void LogHeldMatrices(const LoadedModel& model) {
  const model::HeldMatrices& held = model.held();
  if (held.as_stored > 0) {
    log::Info(absl::StrCat("matrices are held as they are stored, except the first layer's Q, K "
                           "and V",
                           model.on_gpu() ? ", the embedding and the output" : ""),
              {{"matrices", held.as_stored}});
  }
  for (const auto& [reason, matrices] : held.in_bfloat16) {
    log::Warning("quantised matrices are held in bfloat16",
                 {{"matrices", matrices}, {"reason", reason}});
  }
}

}  // namespace folio::worker
