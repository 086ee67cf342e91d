// From a step's last rows to tokens on the device, and what of it the host is told.
#ifndef FOLIO_SERVICES_MODEL_CUDA_SAMPLING_H_
#define FOLIO_SERVICES_MODEL_CUDA_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/uploads.h"
#include "services/model/cuda_transformer.h"
#include "services/model/executor.h"
#include "services/model/step_rows.h"

namespace folio::model {

// A step's results on their way to the host. Kept, with its memory, until they are collected.
class SampledStep {
 public:
  // The step is done: gives its outputs.
  void Fill(StepOutput& output) const;

 private:
  friend class CudaSampling;
  struct Wanted {
    uint32_t result;  // which of the results it is
    SlotId slot;
    Position next;
    int top_logprobs;
  };

  std::vector<Wanted> wanted_;
  uint32_t results_ = 0;
  uint32_t most_top_ = 0;
  kernels::cuda::PinnedBuffer tokens_;    // SampledToken [results]
  kernels::cuda::PinnedBuffer top_;       // TopLogprob [results, most_top]
  kernels::cuda::DeviceBuffer outgrown_;  // that steps before it may still use
};

// Not thread-safe.
class CudaSampling {
 public:
  // Sequences whose last token the device keeps.
  static constexpr uint32_t kMostSlots = 4096;

  static absl::StatusOr<CudaSampling> Make(kernels::cuda::DeviceMemory& memory, uint32_t max_rows);

  // Puts what the step wants into `inputs`, and sees that there is memory for its results. With
  // `padded_rows` every row of the batch has a result, else those that want one.
  absl::Status Prepare(const StepRows& rows, uint32_t padded_rows, uint32_t vocab,
                       kernels::cuda::Uploads& inputs, SampledStep& step);
  // What `inputs` gets of a padded step.
  static size_t InputBytes(uint32_t padded_rows);
  // Whether equal shapes are equal work: lists of the likeliest tokens have any length.
  static bool HasShape(const SampledStep& step) { return step.most_top_ == 0; }

  // Samples and keeps the tokens; on ranks, those that the leader samples.
  absl::Status Run(CudaTransformer& transformer, kernels::cuda::Stream stream,
                   const SampledStep& step) const;
  // Enqueues the results' way back.
  absl::Status Return(kernels::cuda::Stream stream, const SampledStep& step) const;

  // Where what was prepared last lies on the device.
  const void* inputs() const { return rows_; }
  // [kMostSlots] last tokens, by slot.
  const uint32_t* kept() const { return kept_.as<uint32_t>(); }

 private:
  explicit CudaSampling(kernels::cuda::DeviceMemory& memory) : memory_(&memory) {}
  absl::Status MakeRoom(SampledStep& step);

  kernels::cuda::DeviceMemory* memory_;
  kernels::cuda::DeviceBuffer kept_, tokens_, top_;
  // Of the step that was prepared, on the device.
  const uint32_t* rows_ = nullptr;
  const uint32_t* slots_ = nullptr;
  const kernels::cuda::SampleRow* how_ = nullptr;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_SAMPLING_H_
