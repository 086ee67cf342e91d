#include "kernels/cuda/ops/gemm_product.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kRowAlignment = 16;  // see CheckGemm

using Preference = OwnedByUs<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t CudaType(DataType type) {
  switch (type) {
    case DataType::kBf16:
      return CUDA_R_16BF;
    case DataType::kFp16:
      return CUDA_R_16F;
    case DataType::kE4M3:
      return CUDA_R_8F_E4M3;
    case DataType::kFloat32:
      break;
  }
  return CUDA_R_32F;
}

// `parts` matrices of the size of `tensor`, whose first numbers are `apart` numbers apart.
absl::Status MakeLayout(const ConstTensor& tensor, uint32_t parts, size_t apart,
                        ProductLayout& layout) {
  cublasLtMatrixLayout_t made = nullptr;
  cublasStatus_t status = cublasLtMatrixLayoutCreate(
      &made, CudaType(tensor.type), tensor.cols, tensor.rows, static_cast<int64_t>(tensor.stride));
  layout.reset(made);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = cublasLtMatrixLayoutSetAttribute(made, attribute, &value, sizeof(value));
  };
  if (parts > 1) {
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(parts));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<int64_t>(apart));
  }
  return CublasStatus("cuBLASLt describes no matrix", status);
}

// Some of the tensor's rows and columns, from the first on.
ConstTensor Corner(const ConstTensor& tensor, uint32_t rows, uint32_t cols) {
  return {tensor.data, tensor.type, rows, cols, tensor.stride, tensor.scales};
}

template <typename T>
cublasStatus_t Set(const Product& product, cublasLtMatmulDescAttributes_t attribute,
                   const T& value) {
  return cublasLtMatmulDescSetAttribute(product.operation.get(), attribute, &value, sizeof(value));
}

}  // namespace

absl::Status CublasStatus(absl::string_view what, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  std::string message = absl::StrCat(what, ": ", cublasLtGetStatusString(status));
  const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                       status == CUBLAS_STATUS_INVALID_VALUE ||
                       status == CUBLAS_STATUS_ARCH_MISMATCH;
  return refused ? absl::UnimplementedError(message) : absl::InternalError(message);
}

absl::StatusOr<CublasHandle> MakeCublasHandle() {
  cublasLtHandle_t made = nullptr;
  const cublasStatus_t status = cublasLtCreate(&made);
  CublasHandle handle(made);
  if (absl::Status error = CublasStatus("cuBLASLt makes no handle", status); !error.ok()) {
    return error;
  }
  return handle;
}

absl::StatusOr<Product> DescribeProduct(const ConstTensor& in, const ConstTensor& weight,
                                        const Tensor& out, uint32_t parts) {
  Product product;
  product.parts = parts;
  cublasLtMatmulDesc_t made = nullptr;
  cublasStatus_t status = cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  product.operation.reset(made);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = Set(product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  }
  // Scales of rows and columns are applied by the product itself, because a pass of our own over
  // its results would read and write more than the smaller weights save in a prompt. Sums are not
  // the fast ones (CUBLASLT_MATMUL_DESC_FAST_ACCUM), which lose bits of float32 on Hopper.
  if (in.type == DataType::kE4M3) {
    for (const auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE}) {
      if (status != CUBLAS_STATUS_SUCCESS) break;
      status = Set(product, mode, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    }
  }
  absl::Status described = CublasStatus("cuBLASLt describes no product", status);
  described.Update(SetScales(product, in, weight));
  const uint32_t piece = in.cols / parts;
  described.Update(MakeLayout(Corner(weight, weight.rows, piece), parts, piece, product.weight));
  described.Update(MakeLayout(Corner(in, in.rows, piece), parts, piece, product.in));
  described.Update(
      MakeLayout(Corner(out, in.rows, out.cols), parts, in.rows * out.stride, product.out));
  if (!described.ok()) return described;
  return product;
}

absl::Status SetScales(const Product& product, const ConstTensor& in, const ConstTensor& weight) {
  if (in.type != DataType::kE4M3) return absl::OkStatus();
  cublasStatus_t status = Set(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, weight.scales);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = Set(product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, in.scales);
  }
  return CublasStatus("cuBLASLt takes no scales", status);
}

absl::StatusOr<int> Propose(cublasLtHandle_t handle, size_t workspace_bytes, const Product& product,
                            DataType out, int wanted, Candidates& candidates) {
  cublasLtMatmulPreference_t made = nullptr;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(&made);
  const Preference preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_bytes});
  // Parts are not to be split once more, which would take a second kernel. Partial sums must not be
  // added in the type of the result, which would round them.
  if (product.parts > 1) {
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  } else if (out != DataType::kFloat32) {
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  }
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, kRowAlignment);
  }
  int found = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatmulAlgoGetHeuristic(handle, product.operation.get(), product.weight.get(),
                                            product.in.get(), product.out.get(), product.out.get(),
                                            made, wanted, candidates.data(), &found);
  }
  if (absl::Status error = CublasStatus("cuBLASLt has no algorithm", status); !error.ok()) {
    return error;
  }
  if (found == 0) return CublasStatus("cuBLASLt has no algorithm", CUBLAS_STATUS_NOT_SUPPORTED);
  return found;
}

}  // namespace folio::kernels::cuda
