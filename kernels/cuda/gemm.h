// Matrix products on a GPU by cuBLASLt: activations, rows as they are in a batch, times a weight
// matrix as it is stored. Twin of CpuOps::Linear.
//
// Which of cuBLASLt's algorithms multiplies a shape is chosen when the shape first comes, by its
// heuristic, or by Tune, which tries the likeliest ones on the device; either choice is kept. The
// row rule does not hold here: another number of rows may be another algorithm, which sums in
// another order. Equal shapes give equal bits.
//
// INVALID_ARGUMENT names a shape or type that is not served, before anything was enqueued; INTERNAL
// and UNIMPLEMENTED carry cuBLASLt's words.
#ifndef FOLIO_KERNELS_CUDA_GEMM_H_
#define FOLIO_KERNELS_CUDA_GEMM_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

// For one stream at a time: products share the workspace. Not thread-safe.
class Gemm {
 public:
  // Enough for split sums on Hopper, by NVIDIA's advice.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // On the current device. `workspace` is the device's memory, aligned to 256 bytes, and stays the
  // caller's; it outlives what was enqueued.
  static absl::StatusOr<std::unique_ptr<Gemm>> Create(void* workspace, size_t workspace_bytes);

  virtual ~Gemm() = default;

  // out = in * weight^T, or out += in * weight^T; float32 sums. in [rows, k] and weight [n, k] of
  // one type, bf16 or fp16; out [rows, n] of that type or float32. With `accumulate` out is
  // float32. No rows are no work. Does not wait; the first call of a shape may allocate on the
  // host, and is not to be captured.
  virtual absl::Status Multiply(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                                bool accumulate) = 0;

  // Multiplies a few times by each of the likeliest algorithms, and keeps the fastest for this
  // shape. What is in `out` is lost. Waits for the stream.
  virtual absl::Status Tune(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                            bool accumulate) = 0;
};

// What Multiply refuses.
absl::Status CheckGemm(ConstTensor in, ConstTensor weight, const Tensor& out, bool accumulate);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_GEMM_H_
