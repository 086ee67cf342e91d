// CudaProducts enqueues a model's matrix products on a GPU, with the norms in front of them and
// what is done with their results. Steps of few rows take the time in which weights are read. They
// go through kernels that do all of this at once (kernels/cuda/ops/small_products.h). Up to eight
// rows that was faster on every GPU that was tried, and up to sixteen a trial on the device
// decides. Others go through cuBLASLt and a kernel for each of the rest. Up to some 128 rows
// cuBLASLt computes the products that end in a residual in parts, and one kernel adds these, the
// residual and the next norm (kernels/cuda/ops/partial_sums.h).
//
// Hidden states are float32 [rows, hidden], and other inputs of products are bf16.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_PRODUCTS_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_PRODUCTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/ops/small_products.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda/activations.h"
#include "services/model/cuda/cuda_communicator.h"
#include "services/model/cuda/device_weights.h"

namespace folio::model {

struct CudaProductsOptions {
  uint32_t max_rows = 0;                     // of a step
  uint32_t max_logit_rows = 0;               // of which logits are computed at once
  uint32_t processors = 0;                   // the GPU's number of multiprocessors
  CudaCommunicator* communicator = nullptr;  // null for a worker of one rank
  // Compute steps of few rows by kernels of their own, and add the parts of products. Benchmarks
  // compare both.
  bool own_kernels = true;
  // Steps of at most so many rows are computed by them. 0: 8, or 16 if Tune finds that faster.
  uint32_t own_rows = 0;
};

// Not thread-safe.
class CudaProducts {
 public:
  // All references must outlive it. Errors are DeviceMemory's and Gemm's.
  static absl::StatusOr<std::unique_ptr<CudaProducts>> Make(const DeviceWeights& weights,
                                                            kernels::cuda::DeviceMemory& memory,
                                                            kernels::cuda::Stream stream,
                                                            const CudaProductsOptions& options);

  // Chooses algorithms for steps of usual sizes by trying them. Overwrites what is given: hidden
  // states, queries with keys and values, and attended values of max_rows rows. Waits.
  absl::Status Tune(const Activations& hidden, const Activations& qkv, const Activations& attended);

  // The calls of a step are Qkv, AddAttended and AddFeedForward of each layer in turn, since a call
  // may leave the state normalised for the next one.
  //
  // The layer's queries, keys and values, float32. A sum of ranks that is still missing from
  // `hidden` is added to it.
  absl::Status Qkv(uint32_t layer, const kernels::cuda::Tensor& hidden,
                   const kernels::cuda::Tensor& qkv);
  // Adds the product of what was attended to. With several ranks the sum is missing from `hidden`
  // until the next call, unless a norm comes before it is added.
  absl::Status AddAttended(uint32_t layer, const kernels::cuda::Tensor& attended,
                           const kernels::cuda::Tensor& hidden);
  // Adds the feed-forward network's result likewise.
  absl::Status AddFeedForward(uint32_t layer, const kernels::cuda::Tensor& hidden);
  // Adds the last sum of ranks, if it is missing.
  absl::Status Finish(const kernels::cuda::Tensor& hidden);
  // The logits of hidden states, float32 [rows, outputs], until the next call. A rank has those of
  // its part of the vocabulary.
  absl::StatusOr<kernels::cuda::Tensor> Logits(const kernels::cuda::Tensor& hidden);

  // The products of all layers with nothing between them, to measure them. With several ranks,
  // those that end in a sum over ranks are left out.
  absl::Status EnqueueLayers(const kernels::cuda::Tensor& hidden, const kernels::cuda::Tensor& qkv,
                             const kernels::cuda::Tensor& attended);

 private:
  CudaProducts(const DeviceWeights& weights, kernels::cuda::Stream stream,
               const CudaProductsOptions& options);
  absl::Status Allocate(kernels::cuda::DeviceMemory& memory);
  absl::Status AllocateParts(kernels::cuda::DeviceMemory& memory);
  // Compares the products of kMaxSmallRows rows by kernels of our own with those of the libraries.
  absl::Status ChooseSmallRows(const Activations& hidden, const Activations& qkv,
                               const Activations& attended);

  const ModelConfig& config() const { return weights_.config; }
  // Whether the layers' products of so many rows are computed by kernels of our own, and whether
  // those normalise hidden states themselves.
  bool IsSmall(uint32_t rows) const { return rows <= max_small_rows_; }
  bool NormsInside(uint32_t rows) const { return IsSmall(rows) && communicator_ == nullptr; }
  // As the input of such a kernel.
  kernels::cuda::SmallInput Small(const kernels::cuda::Tensor& rows, const float* norm = nullptr,
                                  bool exact = false) const {
    return {rows, norm, config().norm_eps, exact, processors_};
  }
  // In how many parts a product that ends in a residual is computed. With more than one the state
  // is normalised for the next product as well.
  uint32_t Parts(uint32_t rows, const kernels::cuda::ConstTensor& weight) const;
  kernels::cuda::PartialSums PartsOf(uint32_t rows,
                                     const kernels::cuda::ConstTensor& weight) const {
    return {parts_.as<float>(), Parts(rows, weight), rows, weight.rows};
  }
  // Adds what is missing from `hidden`, and normalises it into normed_.
  absl::Status Norm(const kernels::cuda::Tensor& hidden, const float* weight, bool missing);
  // activation(gate) * up of the normalised state, in ffn_.
  absl::Status GateUp(const DeviceLayerWeights& weights, const kernels::cuda::Tensor& hidden);
  // hidden += in * weight^T. `post_norm` is what the product passes before, or null. `norm` is that
  // of the next product, and null behind the last layer.
  absl::Status AddProduct(const kernels::cuda::Tensor& in, const kernels::cuda::ConstTensor& weight,
                          const float* post_norm, const float* norm,
                          const kernels::cuda::Tensor& hidden);
  // The same with post_norm.
  absl::Status AddNormedProduct(const kernels::cuda::Tensor& in,
                                const kernels::cuda::ConstTensor& weight, const float* post_norm,
                                const kernels::cuda::Tensor& hidden);
  bool has_post_norms() const { return config().features.has(Feature::kPostNorms); }
  absl::Status Multiply(const kernels::cuda::Tensor& in, const kernels::cuda::ConstTensor& weight,
                        const kernels::cuda::Tensor& out, bool accumulate = false);

  const DeviceWeights& weights_;
  const uint32_t max_rows_, max_logit_rows_, processors_;
  uint32_t max_small_rows_;
  const bool chooses_small_rows_;
  const kernels::cuda::Stream stream_;
  CudaCommunicator* const communicator_;
  std::unique_ptr<kernels::cuda::Gemm> gemm_;

  Activations normed_;    // [max_rows, hidden]
  Activations loss_;      // [max_rows, hidden]
  Activations gate_up_;   // [max_rows, 2 ffn]
  Activations ffn_;       // [max_rows, ffn]
  Activations logits_;    // float32 [max_logit_rows, outputs]
  Activations added_;     // float32 [max_rows, hidden], for norms behind products
  bool in_parts_ = true;  // until cuBLASLt has no algorithm for one of the products
  kernels::cuda::DeviceBuffer gemm_space_, parts_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_PRODUCTS_H_
