// Scores that a step writes after its rows, on the device: see ResidentScoring.
#ifndef FOLIO_SERVICES_MODEL_CUDA_SCORING_H_
#define FOLIO_SERVICES_MODEL_CUDA_SCORING_H_

#include "absl/status/status.h"
#include "kernels/cuda/types.h"
#include "kernels/cuda/uploads.h"
#include "kernels/views.h"
#include "services/model/resident_scoring.h"
#include "services/model/step_rows.h"

namespace folio::model {

// One step at a time. Not thread-safe.
class CudaScoring {
 public:
  // The step's tokens are in the tables. Puts what is to be scored into `uploads`.
  void Prepare(const StepRows& rows, uint32_t page_tokens, kernels::cuda::Uploads& uploads);
  // All layers of all sequences at once.
  absl::Status Run(kernels::cuda::Stream stream, const kernels::RopeTable& rope,
                   const kernels::cuda::DevicePool& pool) const;

 private:
  ResidentScoring scoring_;
  // On the device.
  kernels::cuda::DeviceArray<kernels::ResidentRun> resident_;
  kernels::cuda::DeviceArray<kernels::UnrotatedRun> unrotated_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_SCORING_H_
