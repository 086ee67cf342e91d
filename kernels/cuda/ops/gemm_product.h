// This header has cuBLASLt's description of a product, and the algorithms that its heuristic
// proposes. It is internal to Gemm.
#ifndef FOLIO_KERNELS_CUDA_OPS_GEMM_PRODUCT_H_
#define FOLIO_KERNELS_CUDA_OPS_GEMM_PRODUCT_H_

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

// OK, or cuBLASLt's words after `what`: UNIMPLEMENTED for what it does not serve, else INTERNAL.
absl::Status CublasStatus(absl::string_view what, cublasStatus_t status);

// cuBLASLt's objects, destroyed with their owner.
template <typename T, cublasStatus_t (*destroy)(T)>
struct Destroy {
  using pointer = T;
  void operator()(T object) const { destroy(object); }
};
template <typename T, cublasStatus_t (*destroy)(T)>
using OwnedByUs = std::unique_ptr<T, Destroy<T, destroy>>;
using CublasHandle = OwnedByUs<cublasLtHandle_t, cublasLtDestroy>;
using ProductOperation = OwnedByUs<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using ProductLayout = OwnedByUs<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

// A handle of the current device.
absl::StatusOr<CublasHandle> MakeCublasHandle();

// cuBLASLt is column-major. It sees our rows as columns, the weight as transposed and the result as
// [n, rows].
struct Product {
  ProductOperation operation;
  ProductLayout weight, in, out;
  uint32_t parts = 1;  // see DescribeProduct
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;  // bytes that the algorithm wants
};

// The product of CheckGemm's arguments, with no algorithm yet. With several parts it is a batch of
// them, in which a product has a piece of the columns of `in` and of the weight, and its result
// lies behind that of the one before.
absl::StatusOr<Product> DescribeProduct(const ConstTensor& in, const ConstTensor& weight,
                                        const Tensor& out, uint32_t parts = 1);

// Has the product take its scales from these rows of E4M3. Does nothing for other types.
absl::Status SetScales(const Product& product, const ConstTensor& in, const ConstTensor& weight);

inline constexpr int kCandidates = 8;
using Candidates = std::array<cublasLtMatmulHeuristicResult_t, kCandidates>;

// Algorithms that take at most `workspace_bytes`, at most `wanted` of them and the likeliest
// first. Returns how many there are, at least one. UNIMPLEMENTED: there is none.
absl::StatusOr<int> Propose(cublasLtHandle_t handle, size_t workspace_bytes, const Product& product,
                            DataType out, int wanted, Candidates& candidates);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_GEMM_PRODUCT_H_
