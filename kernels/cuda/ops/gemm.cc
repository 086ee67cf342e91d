#include "kernels/cuda/ops/gemm.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace folio::kernels::cuda {
namespace {

constexpr int kCandidates = 8;
constexpr int kTimedRuns = 5;
constexpr uint32_t kRowAlignment = 16;  // see CheckGemm

absl::Status CublasStatus(absl::string_view what, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  std::string message = absl::StrCat(what, ": ", cublasLtGetStatusString(status));
  const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                       status == CUBLAS_STATUS_INVALID_VALUE ||
                       status == CUBLAS_STATUS_ARCH_MISMATCH;
  return refused ? absl::UnimplementedError(message) : absl::InternalError(message);
}

cudaDataType_t CudaType(DataType type) {
  switch (type) {
    case DataType::kBf16:
      return CUDA_R_16BF;
    case DataType::kFp16:
      return CUDA_R_16F;
    case DataType::kFloat32:
      break;
  }
  return CUDA_R_32F;
}

// cuBLASLt's objects, destroyed with their owner.
template <typename T, cublasStatus_t (*destroy)(T)>
struct Destroy {
  using pointer = T;
  void operator()(T object) const { destroy(object); }
};
template <typename T, cublasStatus_t (*destroy)(T)>
using Owned = std::unique_ptr<T, Destroy<T, destroy>>;
using Handle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

class Event {
 public:
  Event() { cudaEventCreate(&event_); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Products with the same Shape use the same algorithm.
using Shape = std::tuple<uint32_t, uint32_t, uint32_t,  // rows, n, k
                         size_t, size_t, size_t,        // strides of in, weight, out
                         DataType, DataType, bool>;     // in, out, accumulate

Shape ShapeOf(const ConstTensor& in, const ConstTensor& weight, const Tensor& out,
              bool accumulate) {
  return {in.rows,    weight.rows, in.cols,  in.stride, weight.stride,
          out.stride, in.type,     out.type, accumulate};
}

// cuBLASLt is column-major. It sees our rows as columns, the weight as transposed and the result as
// [n, rows].
struct Product {
  Operation operation;
  Layout weight, in, out;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;  // bytes that the algorithm wants
};

absl::Status MakeLayout(const ConstTensor& tensor, uint32_t rows, Layout& layout) {
  cublasLtMatrixLayout_t made = nullptr;
  const cublasStatus_t status = cublasLtMatrixLayoutCreate(
      &made, CudaType(tensor.type), tensor.cols, rows, static_cast<int64_t>(tensor.stride));
  layout.reset(made);
  return CublasStatus("cuBLASLt describes no matrix", status);
}

absl::StatusOr<Product> Describe(const ConstTensor& in, const ConstTensor& weight,
                                 const Tensor& out) {
  Product product;
  cublasLtMatmulDesc_t made = nullptr;
  cublasStatus_t status = cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  product.operation.reset(made);
  if (status == CUBLAS_STATUS_SUCCESS) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    status = cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof(transposed));
  }
  absl::Status described = CublasStatus("cuBLASLt describes no product", status);
  described.Update(MakeLayout(weight, weight.rows, product.weight));
  described.Update(MakeLayout(in, in.rows, product.in));
  described.Update(MakeLayout(out, in.rows, product.out));
  if (!described.ok()) return described;
  return product;
}

class CublasGemm final : public Gemm {
 public:
  CublasGemm(Handle handle, void* workspace, size_t workspace_bytes)
      : handle_(std::move(handle)), workspace_(workspace), workspace_bytes_(workspace_bytes) {}

  absl::Status Multiply(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                        bool accumulate) override;
  absl::Status Tune(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                    bool accumulate) override;

 private:
  using Candidates = std::array<cublasLtMatmulHeuristicResult_t, kCandidates>;

  // The likeliest first; how many there are, at least one.
  absl::StatusOr<int> Propose(const Product& product, DataType out, int wanted,
                              Candidates& candidates) const;
  // The product's description and algorithm, made when the shape is new.
  absl::StatusOr<Product*> Find(const ConstTensor& in, const ConstTensor& weight, const Tensor& out,
                                bool accumulate);
  absl::Status Run(Stream stream, const Product& product, const void* in, const void* weight,
                   void* out, bool accumulate) const;
  // Milliseconds of a run, once it is warm.
  absl::StatusOr<float> Time(Stream stream, const Product& product, const void* in,
                             const void* weight, void* out, bool accumulate) const;

  Handle handle_;
  void* workspace_;
  size_t workspace_bytes_;
  std::map<Shape, Product> products_;
};

absl::StatusOr<int> CublasGemm::Propose(const Product& product, DataType out, int wanted,
                                        Candidates& candidates) const {
  cublasLtMatmulPreference_t made = nullptr;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(&made);
  const Preference preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_bytes_});
  // Partial sums must not be added in the type of the result, which would round them.
  if (out != DataType::kFloat32) {
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
    status = cublasLtMatmulAlgoGetHeuristic(
        handle_.get(), product.operation.get(), product.weight.get(), product.in.get(),
        product.out.get(), product.out.get(), made, wanted, candidates.data(), &found);
  }
  if (absl::Status error = CublasStatus("cuBLASLt has no algorithm", status); !error.ok()) {
    return error;
  }
  if (found == 0) return CublasStatus("cuBLASLt has no algorithm", CUBLAS_STATUS_NOT_SUPPORTED);
  return found;
}

absl::StatusOr<Product*> CublasGemm::Find(const ConstTensor& in, const ConstTensor& weight,
                                          const Tensor& out, bool accumulate) {
  const Shape shape = ShapeOf(in, weight, out, accumulate);
  const auto known = products_.find(shape);
  if (known != products_.end()) return &known->second;
  absl::StatusOr<Product> product = Describe(in, weight, out);
  if (!product.ok()) return product.status();
  Candidates candidates;
  const absl::StatusOr<int> found = Propose(*product, out.type, 1, candidates);
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat(found.status().message(), ", for [", in.rows, ", ", in.cols,
                                     "] times [", weight.rows, ", ", weight.cols, "] transposed"));
  }
  product->algorithm = candidates[0].algo;
  product->workspace = candidates[0].workspaceSize;
  return &products_.emplace(shape, *std::move(product)).first->second;
}

absl::Status CublasGemm::Run(Stream stream, const Product& product, const void* in,
                             const void* weight, void* out, bool accumulate) const {
  const float alpha = 1;
  const float beta = accumulate ? 1 : 0;
  return CublasStatus(
      "cuBLASLt did not multiply",
      cublasLtMatmul(handle_.get(), product.operation.get(), &alpha, weight, product.weight.get(),
                     in, product.in.get(), &beta, out, product.out.get(), out, product.out.get(),
                     &product.algorithm, workspace_, product.workspace, stream));
}

absl::Status CublasGemm::Multiply(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                                  bool accumulate) {
  if (absl::Status status = CheckGemm(in, weight, out, accumulate); !status.ok()) return status;
  if (in.rows == 0) return absl::OkStatus();
  const absl::StatusOr<Product*> product = Find(in, weight, out, accumulate);
  if (!product.ok()) return product.status();
  return Run(stream, **product, in.data, weight.data, out.data, accumulate);
}

absl::StatusOr<float> CublasGemm::Time(Stream stream, const Product& product, const void* in,
                                       const void* weight, void* out, bool accumulate) const {
  const Event start;
  const Event end;
  absl::Status status = CudaStatus("cannot record an event", cudaEventRecord(start.get(), stream));
  for (int i = 0; i < kTimedRuns && status.ok(); ++i) {
    status = Run(stream, product, in, weight, out, accumulate);
  }
  status.Update(CudaStatus("cannot record an event", cudaEventRecord(end.get(), stream)));
  status.Update(CudaStatus("a product failed", cudaEventSynchronize(end.get())));
  if (!status.ok()) return status;
  float milliseconds = 0;
  status = CudaStatus("cannot time", cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
  if (!status.ok()) return status;
  return milliseconds / kTimedRuns;
}

absl::Status CublasGemm::Tune(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                              bool accumulate) {
  if (absl::Status status = CheckGemm(in, weight, out, accumulate); !status.ok()) return status;
  if (in.rows == 0) return absl::OkStatus();
  const absl::StatusOr<Product*> product = Find(in, weight, out, accumulate);
  if (!product.ok()) return product.status();
  Candidates candidates;
  const absl::StatusOr<int> found = Propose(**product, out.type, kCandidates, candidates);
  if (!found.ok()) return found.status();
  float best = std::numeric_limits<float>::infinity();
  Product& tried = **product;
  cublasLtMatmulAlgo_t algorithm = tried.algorithm;
  size_t workspace = tried.workspace;
  absl::Status status;
  absl::Status refusal = absl::OkStatus();  // the last one
  for (int i = 0; i < *found && status.ok(); ++i) {
    if (candidates[i].state != CUBLAS_STATUS_SUCCESS) continue;
    tried.algorithm = candidates[i].algo;
    tried.workspace = candidates[i].workspaceSize;
    // Warms up; some are refused only now.
    status = Run(stream, tried, in.data, weight.data, out.data, accumulate);
    if (absl::IsUnimplemented(status)) {
      refusal = std::exchange(status, absl::OkStatus());
      continue;
    }
    if (!status.ok()) break;
    const auto time = Time(stream, tried, in.data, weight.data, out.data, accumulate);
    status = time.status();
    if (!time.ok() || *time >= best) continue;
    best = *time;
    algorithm = tried.algorithm;
    workspace = tried.workspace;
  }
  tried.algorithm = algorithm;
  tried.workspace = workspace;
  const bool none = best == std::numeric_limits<float>::infinity();
  return status.ok() && none ? refusal : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(void* workspace, size_t workspace_bytes) {
  cublasLtHandle_t made = nullptr;
  const cublasStatus_t status = cublasLtCreate(&made);
  Handle handle(made);
  if (absl::Status error = CublasStatus("cuBLASLt makes no handle", status); !error.ok()) {
    return error;
  }
  return std::make_unique<CublasGemm>(std::move(handle), workspace, workspace_bytes);
}

}  // namespace folio::kernels::cuda
