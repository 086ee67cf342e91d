// PlainWeights is a weight matrix of the plain family, row by row as it was given, in bf16 or
// quantised. It is immutable, so any thread may use it.
#ifndef FOLIO_KERNELS_CPU_PLAIN_WEIGHTS_H_
#define FOLIO_KERNELS_CPU_PLAIN_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/quantized_ops.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::plain {

class PlainWeights : public PackedWeights {
 public:
  // Row 2 i of a gated pair is row i of the gate, and row 2 i + 1 that of the other matrix.
  // Other matrices have no activation.
  virtual const std::optional<Activation>& activation() const = 0;
  // out[r][i] = in[r] times row first + i; in [rows, k], out [rows, count].
  virtual void Dots(Matrix<const float> in, size_t first, size_t count,
                    Matrix<float> out) const = 0;
  // Row `row`, [k].
  virtual void ReadRow(size_t row, absl::Span<float> out) const = 0;
};

std::unique_ptr<PlainWeights> PackRows(Matrix<const bf16> weight);
// Both of one shape.
std::unique_ptr<PlainWeights> PackGatedRows(Matrix<const bf16> gate, Matrix<const bf16> up,
                                            Activation activation);

// The specification of QuantizedOps for all rows. Matrices below one another, or with an activation
// a gated pair.
std::unique_ptr<PlainWeights> PackQuantizedRows(absl::Span<const QuantizedMatrix* const> parts,
                                                std::optional<Activation> activation);

}  // namespace folio::kernels::cpu::plain

#endif  // FOLIO_KERNELS_CPU_PLAIN_WEIGHTS_H_
