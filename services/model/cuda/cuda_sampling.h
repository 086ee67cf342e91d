// CudaSampling samples tokens from a step's last rows on the device and returns them to the host.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_SAMPLING_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/ops/sampling.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/uploads.h"
#include "services/model/cuda/cuda_transformer.h"
#include "services/model/executor/executor.h"
#include "services/model/executor/step_rows.h"

namespace folio::model {

// SampledStep is a step's results on their way to the host. It must live until they are collected.
class SampledStep {
 public:
  // Fills in the outputs of a step that is done, each with a status of its own.
  void Fill(StepOutput& output) const;

 private:
  friend class CudaSampling;
  struct Wanted {
    uint32_t result;  // which of the results it is
    SequenceSlot slot;
    Position next;
    int top_logprobs;
  };

  std::vector<Wanted> wanted_;
  uint32_t results_ = 0;
  uint32_t max_top_ = 0;
  kernels::cuda::PinnedBuffer tokens_;  // SampledToken [results]
  kernels::cuda::PinnedBuffer top_;     // TopLogprob [results, max_top]
  // Buffers that steps before it may still use.
  kernels::cuda::DeviceBuffer outgrown_, outgrown_edited_;
};

// Not thread-safe.
class CudaSampling {
 public:
  // The device keeps the last token of this many sequences.
  static constexpr uint32_t kMaxSlots = 4096;

  static absl::StatusOr<CudaSampling> Make(kernels::cuda::DeviceMemory& memory, uint32_t max_rows);

  // Puts the step's sampling parameters into `inputs`, and allocates memory for its results. With
  // `padded_rows` every row of the batch has a result, otherwise those that want one. Edits of
  // logits vary in size and go into `uploads`. A graph reads their addresses with the parameters.
  absl::Status Prepare(const StepRows& rows, uint32_t padded_rows, uint32_t vocab,
                       kernels::cuda::Uploads& uploads, kernels::cuda::Uploads& inputs,
                       SampledStep& step);
  // The size of what a padded step puts into `inputs`.
  static size_t InputBytes(uint32_t padded_rows);
  // False if top log-probabilities are requested: their size varies, so the step cannot be
  // captured.
  static bool HasShape(const SampledStep& step) { return step.max_top_ == 0; }

  // Samples tokens and keeps them for the next step. In a group the leader samples for all ranks.
  absl::Status Run(CudaTransformer& transformer, kernels::cuda::Stream stream,
                   const SampledStep& step) const;
  // Enqueues the copy of the results to the host.
  absl::Status Return(kernels::cuda::Stream stream, const SampledStep& step) const;

  // The device address of the inputs that were prepared last.
  const void* inputs() const { return rows_; }
  // [kMaxSlots] last tokens, by slot.
  const uint32_t* kept() const { return kept_.as<uint32_t>(); }

 private:
  explicit CudaSampling(kernels::cuda::DeviceMemory& memory) : memory_(&memory) {}
  absl::Status MakeRoom(SampledStep& step);
  // Makes room for the logits of so many edited rows.
  absl::Status MakeEdited(uint32_t rows, uint32_t vocab, SampledStep& step);
  // Copies the edits of a segment's row to `uploads`. `edited` is the row's room.
  kernels::cuda::RowEdits UploadEdits(const StepSegment& segment, float* edited,
                                      kernels::cuda::Uploads& uploads) const;

  kernels::cuda::DeviceMemory* memory_;
  kernels::cuda::DeviceBuffer kept_, tokens_, top_, edited_;
  // Inputs of the prepared step, on the device.
  const uint32_t* rows_ = nullptr;
  const uint32_t* slots_ = nullptr;
  const kernels::cuda::SampleRow* how_ = nullptr;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_SAMPLING_H_
