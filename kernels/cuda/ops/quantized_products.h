// This header has the products of matrices that a GPU holds quantised (quantized_matrix.h).
//
// Products of few rows read the codes alone. Activations are bf16, and so are codes less their
// format's zero, exactly. Tensor cores add up the products of a group of values, which are scaled
// in float32: a sum is that of step * sum(code * x) - offset * sum(x) over the groups. Numbers are
// added in one order, whatever the number of rows is. Larger batches multiply by a copy of the
// matrix in bf16, which Dequantize makes.
#ifndef FOLIO_KERNELS_CUDA_OPS_QUANTIZED_PRODUCTS_H_
#define FOLIO_KERNELS_CUDA_OPS_QUANTIZED_PRODUCTS_H_

#include "absl/status/status.h"
#include "kernels/cuda/ops/small_products.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

// SmallProduct, AddSmallProduct and SmallGlu of quantised weights, which check their arguments and
// call these. INVALID_ARGUMENT if the parts are not the matrix's rows, or if those of SmallGlu are
// not two of one format.
absl::Status QuantizedProduct(Stream stream, const SmallInput& in, const ConstTensor& weight,
                              const float* bias, const Tensor& out);
absl::Status AddQuantizedProduct(Stream stream, const SmallInput& in, const ConstTensor& weight,
                                 const Tensor& out);
absl::Status QuantizedGlu(Stream stream, const SmallInput& in, Activation activation,
                          const ConstTensor& gate_up, const Tensor& out);

// OK if the parts of a quantised matrix are its rows, in formats that are served.
absl::Status CheckQuantized(const ConstTensor& weight);

// The matrix's values (kernels::Dequantize) rounded to bf16, to the bit. `out` is bf16 of its
// shape, with a stride that is a multiple of 4.
absl::Status Dequantize(Stream stream, const ConstTensor& weight, const Tensor& out);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_QUANTIZED_PRODUCTS_H_
