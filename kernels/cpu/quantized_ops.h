// QuantizedOps is the part of a family of CPU kernels that computes with matrices of quantised
// values as they are stored, because reading weights is what bounds decoding. Its matrices are
// PackedWeights, which CpuOps::Linear and GatedLinear take like any other.
//
// A decode row is quantised for such a product: each block of 32 activations x has the scale
// s = max |x| / 127 and the codes round(x / s). The products of codes are summed up exactly in
// integers over each group of weights, and the groups' sums are added up in float32, in ascending
// order. That is what ggml computes, except that it has one scale for 256 activations of K formats.
// Prompt rows are computed so too, or in bf16 with weights rounded to bf16, which is up to the
// family. Both keep batch invariance.
//
// Matrices may be packed by several threads at once.
#ifndef FOLIO_KERNELS_CPU_QUANTIZED_OPS_H_
#define FOLIO_KERNELS_CPU_QUANTIZED_OPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/quantized.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/views.h"

namespace folio::kernels::cpu {

class PackedWeights;

class QuantizedOps {
 public:
  virtual ~QuantizedOps() = default;

  // Copies matrices of equal k, one below the other, into one. They may have different formats.
  virtual std::unique_ptr<PackedWeights> PackQuantized(
      absl::Span<const QuantizedMatrix* const> parts) const = 0;
  // Two matrices of equal shape for CpuOps::GatedLinear. Their formats may differ.
  virtual std::unique_ptr<PackedWeights> PackGatedQuantized(const QuantizedMatrix& gate,
                                                            const QuantizedMatrix& up,
                                                            Activation activation) const = 0;

  // out[r] is row ids[r] of a matrix that PackQuantized made, as float32. out is [ids, k].
  virtual void Lookup(ThreadPool& pool, const PackedWeights& weight, absl::Span<const uint32_t> ids,
                      Matrix<float> out) const = 0;
};

}  // namespace folio::kernels::cpu

#endif  // FOLIO_KERNELS_CPU_QUANTIZED_OPS_H_
