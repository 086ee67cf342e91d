// CudaScoring writes the scores that follow a step's rows, on the device. See ResidentScoring.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_SCORING_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_SCORING_H_

#include "absl/status/status.h"
#include "kernels/cuda/runtime/uploads.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"
#include "services/model/executor/resident_scoring.h"
#include "services/model/executor/rope.h"
#include "services/model/executor/step_rows.h"

namespace folio::model {

// One step at a time. Not thread-safe.
class CudaScoring {
 public:
  explicit CudaScoring(const ModelConfig& config) : scoring_(config.others) {}

  // Puts the list of tokens to score into `uploads`. The tables have the step's tokens already.
  void Prepare(const StepRows& rows, uint32_t page_tokens, kernels::cuda::Uploads& uploads);
  // One launch scores all layers of all sequences that turn by the same angles.
  absl::Status Run(kernels::cuda::Stream stream, const LayerAngles& angles,
                   const kernels::cuda::DevicePool& pool) const;

 private:
  kernels::cuda::DeviceArray<kernels::UnrotatedItem> PutUnrotated(
      absl::Span<const kernels::UnrotatedItem> items, uint32_t page_tokens,
      kernels::cuda::Uploads& uploads) const;

  ResidentScoring scoring_;
  // On the device.
  kernels::cuda::DeviceArray<kernels::ResidentItem> resident_;
  kernels::cuda::DeviceArray<kernels::UnrotatedItem> unrotated_, others_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_SCORING_H_
