// Loops holds the inner loops of the plain family, dot products and weighted sums of bf16 rows, and
// norms of float32 rows, which models use with every family of kernels. They are written once and
// compiled for several instruction sets, of which the widest that this CPU has is used.
//
// A sum over k has 16 accumulators (element i goes to number i mod 16) which are then added in
// halves: 8 + 8, 4 + 4, 2 + 2, 1 + 1. This order is fixed, and products are rounded before they are
// added (the file is compiled without contraction), so every instruction set and every way of
// grouping rows gives the same bits.
#ifndef FOLIO_KERNELS_CPU_PLAIN_LOOPS_H_
#define FOLIO_KERNELS_CPU_PLAIN_LOOPS_H_

#include <cstddef>
#include <vector>

#include "kernels/views.h"

namespace folio::kernels::cpu::plain {

struct Loops {
  const char* instruction_set;

  // out[r][n] = dot(in[r], weight[n]); in [rows, k] float32, weight [n, k] bf16, out [rows, n].
  void (*dots)(Matrix<const float> in, Matrix<const bf16> weight, Matrix<float> out);

  // out[r] += sum over t of share[r][t] * value[t], t ascending; share [rows, tokens], value
  // [tokens, dim] bf16, out [rows, dim].
  void (*weighted_sums)(Matrix<const float> share, Matrix<const bf16> value, Matrix<float> out);

  // Sum of squares of `count` numbers, in the order above.
  float (*sum_of_squares)(const float* x, size_t count);

  // The RMS norm of the `count` numbers at `x`, which is x / sqrt(mean(x^2) + eps) * weight. It
  // replaces them, or is added to those at `to`, which are others.
  void (*norm)(float* x, const float* weight, float eps, size_t count);
  void (*add_normed)(const float* x, const float* weight, float eps, size_t count, float* to);
};

// The loops that this CPU can run, the widest first. Never empty.
const std::vector<Loops>& SupportedLoops();
inline const Loops& BestLoops() { return SupportedLoops().front(); }

}  // namespace folio::kernels::cpu::plain

#endif  // FOLIO_KERNELS_CPU_PLAIN_LOOPS_H_
