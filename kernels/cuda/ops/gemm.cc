#include "kernels/cuda/ops/gemm.h"

#include <cuda_runtime_api.h>

#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/ops/gemm_product.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace folio::kernels::cuda {
namespace {

constexpr int kTimedRuns = 5;

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

// The arguments of a product. With several parts `out` is the first of them.
struct Arguments {
  ConstTensor in, weight;
  Tensor out;
  bool accumulate = false;
  uint32_t parts = 1;
};

// Products with the same Shape use the same algorithm.
using Shape = std::tuple<uint32_t, uint32_t, uint32_t,  // rows, n, k
                         size_t, size_t, size_t,        // strides of in, weight, out
                         DataType, DataType,            // in, out
                         bool, uint32_t>;               // accumulate, parts

Shape ShapeOf(const Arguments& a) {
  return {a.in.rows,    a.weight.rows, a.in.cols,  a.in.stride,  a.weight.stride,
          a.out.stride, a.in.type,     a.out.type, a.accumulate, a.parts};
}

class CublasGemm final : public Gemm {
 public:
  CublasGemm(CublasHandle handle, void* workspace, size_t workspace_bytes)
      : handle_(std::move(handle)), workspace_(workspace), workspace_bytes_(workspace_bytes) {}

  absl::Status Multiply(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                        bool accumulate) override;
  absl::Status MultiplyInParts(Stream stream, ConstTensor in, ConstTensor weight,
                               PartialSums parts) override;
  absl::Status Tune(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                    bool accumulate) override;
  absl::Status TuneInParts(Stream stream, ConstTensor in, ConstTensor weight,
                           PartialSums parts) override;

 private:
  // The product's description and algorithm, made when the shape is new.
  absl::StatusOr<Product*> Find(const Arguments& arguments);
  absl::Status Run(Stream stream, const Product& product, const Arguments& arguments) const;
  // Milliseconds of a run, once it is warm.
  absl::StatusOr<float> Time(Stream stream, const Product& product,
                             const Arguments& arguments) const;
  // These do nothing if there are no rows.
  absl::Status Multiply(Stream stream, const Arguments& arguments);
  absl::Status Tune(Stream stream, const Arguments& arguments);

  CublasHandle handle_;
  void* workspace_;
  size_t workspace_bytes_;
  std::map<Shape, Product> products_;
};

absl::StatusOr<Product*> CublasGemm::Find(const Arguments& arguments) {
  const Shape shape = ShapeOf(arguments);
  const auto known = products_.find(shape);
  if (known != products_.end()) return &known->second;
  const auto& [in, weight, out, accumulate, parts] = arguments;
  absl::StatusOr<Product> product = DescribeProduct(in, weight, out, parts);
  if (!product.ok()) return product.status();
  Candidates candidates;
  const absl::StatusOr<int> found =
      Propose(handle_.get(), workspace_bytes_, *product, out.type, 1, candidates);
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat(found.status().message(), ", for [", in.rows, ", ", in.cols,
                                     "] times [", weight.rows, ", ", weight.cols, "] transposed",
                                     parts > 1 ? absl::StrCat(" in ", parts, " parts") : ""));
  }
  product->algorithm = candidates[0].algo;
  product->workspace = candidates[0].workspaceSize;
  return &products_.emplace(shape, *std::move(product)).first->second;
}

absl::Status CublasGemm::Run(Stream stream, const Product& product,
                             const Arguments& arguments) const {
  const auto& [in, weight, out, accumulate, parts] = arguments;
  // They belong to the description, which products of one shape share.
  if (absl::Status status = SetScales(product, in, weight); !status.ok()) return status;
  const float alpha = 1;
  const float beta = accumulate ? 1 : 0;
  return CublasStatus("cuBLASLt did not multiply",
                      cublasLtMatmul(handle_.get(), product.operation.get(), &alpha, weight.data,
                                     product.weight.get(), in.data, product.in.get(), &beta,
                                     out.data, product.out.get(), out.data, product.out.get(),
                                     &product.algorithm, workspace_, product.workspace, stream));
}

absl::Status CublasGemm::Multiply(Stream stream, const Arguments& arguments) {
  if (arguments.in.rows == 0) return absl::OkStatus();
  const absl::StatusOr<Product*> product = Find(arguments);
  if (!product.ok()) return product.status();
  return Run(stream, **product, arguments);
}

absl::Status CublasGemm::Multiply(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                                  bool accumulate) {
  if (absl::Status status = CheckGemm(in, weight, out, accumulate); !status.ok()) return status;
  return Multiply(stream, {in, weight, out, accumulate});
}

absl::Status CublasGemm::MultiplyInParts(Stream stream, ConstTensor in, ConstTensor weight,
                                         PartialSums parts) {
  if (absl::Status status = CheckGemmInParts(in, weight, parts); !status.ok()) return status;
  return Multiply(stream, {in, weight, FirstPart(parts), false, parts.count});
}

absl::StatusOr<float> CublasGemm::Time(Stream stream, const Product& product,
                                       const Arguments& arguments) const {
  const Event start;
  const Event end;
  absl::Status status = CudaStatus("cannot record an event", cudaEventRecord(start.get(), stream));
  for (int i = 0; i < kTimedRuns && status.ok(); ++i) status = Run(stream, product, arguments);
  status.Update(CudaStatus("cannot record an event", cudaEventRecord(end.get(), stream)));
  status.Update(CudaStatus("a product failed", cudaEventSynchronize(end.get())));
  if (!status.ok()) return status;
  float milliseconds = 0;
  status = CudaStatus("cannot time", cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
  if (!status.ok()) return status;
  return milliseconds / kTimedRuns;
}

absl::Status CublasGemm::Tune(Stream stream, const Arguments& arguments) {
  if (arguments.in.rows == 0) return absl::OkStatus();
  const absl::StatusOr<Product*> product = Find(arguments);
  if (!product.ok()) return product.status();
  Candidates candidates;
  const absl::StatusOr<int> found = Propose(handle_.get(), workspace_bytes_, **product,
                                            arguments.out.type, kCandidates, candidates);
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
    status = Run(stream, tried, arguments);  // warms up; some are refused only now
    if (absl::IsUnimplemented(status)) {
      refusal = std::exchange(status, absl::OkStatus());
      continue;
    }
    if (!status.ok()) break;
    const auto time = Time(stream, tried, arguments);
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

absl::Status CublasGemm::Tune(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                              bool accumulate) {
  if (absl::Status status = CheckGemm(in, weight, out, accumulate); !status.ok()) return status;
  return Tune(stream, {in, weight, out, accumulate});
}

absl::Status CublasGemm::TuneInParts(Stream stream, ConstTensor in, ConstTensor weight,
                                     PartialSums parts) {
  if (absl::Status status = CheckGemmInParts(in, weight, parts); !status.ok()) return status;
  return Tune(stream, {in, weight, FirstPart(parts), false, parts.count});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(void* workspace, size_t workspace_bytes) {
  absl::StatusOr<CublasHandle> handle = MakeCublasHandle();
  if (!handle.ok()) return handle.status();
  return std::make_unique<CublasGemm>(*std::move(handle), workspace, workspace_bytes);
}

absl::Status Gemm::CheckRowScales() {
  const absl::StatusOr<CublasHandle> handle = MakeCublasHandle();
  if (!handle.ok()) return handle.status();
  constexpr uint32_t kRows = 16;
  constexpr uint32_t kSize = 1024;
  alignas(16) float place[4] = {};  // an address of which nothing is read
  const ConstTensor in(place, DataType::kE4M3, kRows, kSize, kSize, place);
  const ConstTensor weight(place, DataType::kE4M3, kSize, kSize, kSize, place);
  const Tensor out{place, DataType::kFloat32, kRows, kSize, kSize};
  const absl::StatusOr<Product> product = DescribeProduct(in, weight, out);
  if (!product.ok()) return product.status();
  Candidates candidates;
  return Propose(handle->get(), kWorkspaceBytes, *product, out.type, 1, candidates).status();
}

}  // namespace folio::kernels::cuda
