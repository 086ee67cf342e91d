// This header has the products of few rows, as decode steps of small batches have them. Such a
// product takes the time in which its weights are read, so that a kernel of its own for what comes
// before and after costs more than the work in it. These products therefore normalise their input
// on the way in, and add biases and residuals or apply gates on the way out. They read their first
// weights while the kernel before still runs.
//
// Products are computed by tensor cores, which multiply eight rows as fast as one. The numbers of a
// sum are added in one order, whatever the number of rows is, so that the result of a row depends
// on that row alone. Calls and errors are as in kernels/cuda/ops/ops.h. Weights are bf16 [outputs,
// cols], where cols is a multiple of 8, or E4M3 with a scale for each row, where it is one of 16.
// Codes of E4M3 become bf16, which holds their numbers exactly, and sums are multiplied by the
// scales. So rows need not be quantised, and those that are multiplied here are not. Rows of
// weights begin at multiples of 16 bytes.
#ifndef FOLIO_KERNELS_CUDA_OPS_SMALL_PRODUCTS_H_
#define FOLIO_KERNELS_CUDA_OPS_SMALL_PRODUCTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

// Rows that an instruction of the tensor cores multiplies. As many cost as much as one.
inline constexpr uint32_t kFewRows = 8;
// The most rows that are served, by two instructions. Each tile of outputs then reads at least as
// many bytes of rows from the cache as of weights from memory.
inline constexpr uint32_t kMaxSmallRows = 16;

// Rows that are multiplied.
struct SmallInput {
  ConstTensor rows;  // bf16, or float32 with a norm
  // Not null: the rows are hidden states, and hidden / sqrt(mean(hidden^2) + eps) * norm is
  // multiplied, rounded to bf16 before the division.
  const float* norm = nullptr;
  float eps = 0;
  // With a norm: what rounding loses is rounded once more and multiplied as well.
  bool exact = false;
  uint32_t processors = 0;  // multiprocessors of the GPU, for which work is divided
};

// out = in * weight^T + bias, where bias is float32 [outputs] or null. out is float32 or bf16.
absl::Status SmallProduct(Stream stream, const SmallInput& in, ConstTensor weight,
                          const float* bias, Tensor out);

// out += in * weight^T. out is float32.
absl::Status AddSmallProduct(Stream stream, const SmallInput& in, ConstTensor weight, Tensor out);

// out = activation(gate) * up, where in * gate_up^T holds gate and then up. out is bf16, with half
// as many columns as gate_up has rows.
absl::Status SmallGlu(Stream stream, const SmallInput& in, Activation activation,
                      ConstTensor gate_up, Tensor out);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_SMALL_PRODUCTS_H_
