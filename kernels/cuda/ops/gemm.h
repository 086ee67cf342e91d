// Gemm multiplies activations by a weight matrix as it is stored, with cuBLASLt. It is the twin of
// CpuOps::Linear.
//
// The algorithm for a shape is chosen when the shape first comes, by cuBLASLt's heuristic, or by
// Tune, which tries the likeliest ones on the device. Either choice is kept. Batch invariance does
// not hold here, because another number of rows may use another algorithm, which sums in another
// order. Equal shapes give equal bits.
//
// INVALID_ARGUMENT names an unsupported shape or type, before anything was enqueued. INTERNAL and
// UNIMPLEMENTED carry cuBLASLt's words.
#ifndef FOLIO_KERNELS_CUDA_OPS_GEMM_H_
#define FOLIO_KERNELS_CUDA_OPS_GEMM_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device_info.h"
#include "kernels/cuda/ops/partial_sums.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

// Serves one stream at a time, because products share the workspace. Not thread-safe.
class Gemm {
 public:
  // Enough for split sums on Hopper, by NVIDIA's advice.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // Uses the current device. `workspace` is memory of the device, aligned to 256 bytes. The caller
  // owns it and keeps it until the stream has passed all products.
  static absl::StatusOr<std::unique_ptr<Gemm>> Create(void* workspace, size_t workspace_bytes);

  // Whether products of E4M3 are served on the current device. UNIMPLEMENTED carries cuBLASLt's
  // words where it has none with a scale for each row, which it has for Hopper's FP8 tensor cores
  // (compute capability 9.0) from CUDA 12.9 on.
  static absl::Status CheckRowScales();

  virtual ~Gemm() = default;

  // out = in * weight^T, or out += in * weight^T, with float32 sums. in [rows, k] and weight [n, k]
  // have one type: bf16, fp16, or E4M3 with a scale for each row. out [rows, n] is float32 or has
  // that type, or bf16 where it is E4M3. With `accumulate` out is float32. For E4M3, n and k are
  // multiples of 16. A call without rows does nothing. Does not wait. The first call of a shape may
  // allocate on the host and must not be captured.
  virtual absl::Status Multiply(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                                bool accumulate) = 0;

  // Part i of in * weight^T, of the i-th of parts.count equal pieces of k columns, by one kernel
  // that computes all parts. in and weight are bf16 or fp16, k is a multiple of 8 * parts.count and
  // n one of 4. Otherwise as Multiply.
  virtual absl::Status MultiplyInParts(Stream stream, ConstTensor in, ConstTensor weight,
                                       PartialSums parts) = 0;

  // Multiplies a few times with each of the likeliest algorithms and keeps the fastest for this
  // shape. Overwrites `out`. Waits for the stream.
  virtual absl::Status Tune(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                            bool accumulate) = 0;
  virtual absl::Status TuneInParts(Stream stream, ConstTensor in, ConstTensor weight,
                                   PartialSums parts) = 0;
};

// OK if `device` multiplies E4M3, where `row_scales` is what CheckRowScales says on it.
// UNIMPLEMENTED names the GPU, what it lacks, and bfloat16 as the way out.
absl::Status CheckE4M3(const DeviceInfo& device, const absl::Status& row_scales);

// The errors of Multiply for its arguments.
absl::Status CheckGemm(ConstTensor in, ConstTensor weight, const Tensor& out, bool accumulate);
// The errors of MultiplyInParts likewise.
absl::Status CheckGemmInParts(ConstTensor in, ConstTensor weight, const PartialSums& parts);

// The first part.
inline Tensor FirstPart(const PartialSums& parts) {
  return {parts.data, DataType::kFloat32, parts.rows, parts.cols, parts.cols};
}

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_GEMM_H_
