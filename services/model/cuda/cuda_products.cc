#include "services/model/cuda/cuda_products.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/partial_sums.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/base/check.h"
#include "services/model/cuda/dequantizing_gemm.h"
#include "services/model/cuda/quantizing_gemm.h"
#include "services/model/executor/forward_rows.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using cuda::ConstTensor;
using cuda::DataType;
using cuda::Tensor;

// Kernels of few rows load eight columns of bf16 at once. Matrices in E4M3 have even more.
bool ServesSmallProducts(const DeviceWeights& weights) {
  const ModelConfig& config = weights.config;
  return config.hidden % 8 == 0 && config.ffn % 8 == 0 && config.heads * config.head_dim % 8 == 0;
}

// Until Tune has compared. More rows of quantised values would be multiplied by a copy in bf16,
// which takes longer than to read them.
uint32_t SmallRows(const DeviceWeights& weights, const CudaProductsOptions& options) {
  if (!options.own_kernels || !ServesSmallProducts(weights)) return 0;
  if (options.own_rows > 0) return std::min(options.own_rows, cuda::kMaxSmallRows);
  return weights.held.as_stored > 0 ? cuda::kMaxSmallRows : cuda::kFewRows;
}

}  // namespace

CudaProducts::CudaProducts(const DeviceWeights& weights, cuda::Stream stream,
                           const CudaProductsOptions& options)
    : weights_(weights),
      max_rows_(options.max_rows),
      max_logit_rows_(options.max_logit_rows),
      processors_(options.processors),
      max_small_rows_(SmallRows(weights, options)),
      chooses_small_rows_(options.own_rows == 0 && max_small_rows_ == cuda::kFewRows),
      stream_(stream),
      communicator_(options.communicator) {}

absl::StatusOr<std::unique_ptr<CudaProducts>> CudaProducts::Make(
    const DeviceWeights& weights, cuda::DeviceMemory& memory, cuda::Stream stream,
    const CudaProductsOptions& options) {
  std::unique_ptr<CudaProducts> made(new CudaProducts(weights, stream, options));
  absl::Status status = cuda::RunAll(
      {[&] { return made->Allocate(memory); }, [&] { return made->AllocateParts(memory); }});
  if (!status.ok()) return status;
  auto gemm = cuda::Gemm::Create(made->gemm_space_.as<void>(), cuda::Gemm::kWorkspaceBytes);
  if (!gemm.ok()) return gemm.status();
  made->gemm_ = *std::move(gemm);
  if (weights.layers.front().out.type == DataType::kE4M3) {
    auto quantizing =
        QuantizingGemm::Make(std::move(made->gemm_), memory, weights.config, options.max_rows);
    if (!quantizing.ok()) return quantizing.status();
    made->gemm_ = *std::move(quantizing);
  } else if (weights.held.as_stored > 0) {
    auto dequantizing = DequantizingGemm::Make(std::move(made->gemm_), memory, weights);
    if (!dequantizing.ok()) return dequantizing.status();
    made->gemm_ = *std::move(dequantizing);
  }
  return made;
}

absl::Status CudaProducts::Allocate(cuda::DeviceMemory& memory) {
  struct Wanted {
    Activations* to;
    DataType type;
    uint32_t rows, cols;
  };
  const uint32_t hidden = config().hidden;
  for (const auto& [to, type, rows, cols] :
       {Wanted{&normed_, DataType::kBf16, std::max(max_rows_, max_logit_rows_), hidden},
        {&loss_, DataType::kBf16, max_rows_, hidden},
        {&gate_up_, DataType::kBf16, max_rows_, 2 * config().ffn},
        {&ffn_, DataType::kBf16, max_rows_, config().ffn},
        {&logits_, DataType::kFloat32, max_logit_rows_, config().outputs()}}) {
    auto made = Activations::Make(memory, type, rows, cols);
    if (!made.ok()) return made.status();
    *to = *std::move(made);
  }
  if (has_post_norms()) {
    auto added = Activations::Make(memory, DataType::kFloat32, max_rows_, hidden);
    if (!added.ok()) return added.status();
    added_ = *std::move(added);
  }
  auto gemm = memory.Allocate(cuda::Gemm::kWorkspaceBytes, "the workspace of products");
  if (!gemm.ok()) return gemm.status();
  gemm_space_ = *std::move(gemm);
  return absl::OkStatus();
}

absl::Status CudaProducts::AllocateParts(cuda::DeviceMemory& memory) {
  uint32_t most = 0;
  for (uint32_t rows = 1; rows <= std::min(max_rows_, cuda::kMaxRowsInParts); ++rows) {
    uint32_t parts = 1;
    for (const DeviceLayerWeights& w : weights_.layers) {
      parts = std::max({parts, Parts(rows, w.out), Parts(rows, w.down)});
    }
    if (parts > 1) most = std::max(most, parts * rows);
  }
  if (most == 0) return absl::OkStatus();
  auto parts = memory.Allocate(size_t{most} * config().hidden * sizeof(float), "parts of products");
  if (!parts.ok()) return parts.status();
  parts_ = *std::move(parts);
  return absl::OkStatus();
}

uint32_t CudaProducts::Parts(uint32_t rows, const ConstTensor& weight) const {
  if (has_post_norms() || weight.type == DataType::kE4M3) return 1;
  if (!in_parts_ || max_small_rows_ == 0 || IsSmall(rows) || communicator_ != nullptr) return 1;
  return cuda::PartsOfProduct(rows, weight.rows, weight.cols, processors_);
}

absl::Status CudaProducts::Multiply(const Tensor& in, const ConstTensor& weight, const Tensor& out,
                                    bool accumulate) {
  return gemm_->Multiply(stream_, in, weight, out, accumulate);
}

absl::Status CudaProducts::Norm(const Tensor& hidden, const float* weight, bool missing) {
  const bool adds = missing && communicator_ != nullptr && !has_post_norms();
  const ConstTensor delta = adds ? ConstTensor(communicator_->partial(hidden.rows)) : ConstTensor();
  return cuda::AddRmsNorm(stream_, hidden, delta, weight, config().norm_eps,
                          normed_.Rows(hidden.rows));
}

absl::Status CudaProducts::Qkv(uint32_t layer, const Tensor& hidden, const Tensor& qkv) {
  const DeviceLayerWeights& w = weights_.layers[layer];
  const float eps = config().norm_eps;
  if (NormsInside(hidden.rows)) {
    // See Transformer::AddRoundingLoss for the first layer.
    return cuda::SmallProduct(stream_, Small(hidden, w.attention_norm, /*exact=*/layer == 0), w.qkv,
                              w.qkv_bias, qkv);
  }
  const bool small = IsSmall(hidden.rows);
  const bool is_normed = layer > 0 && Parts(hidden.rows, weights_.layers[layer - 1].down) > 1;
  const Tensor normed = normed_.Rows(hidden.rows);
  const Tensor loss = loss_.Rows(hidden.rows);
  return cuda::RunAll(
      {[&] {
         return is_normed ? absl::OkStatus()
                          : Norm(hidden, w.attention_norm, /*missing=*/layer > 0);
       },
       [&] {
         return small ? cuda::SmallProduct(stream_, Small(normed), w.qkv, w.qkv_bias, qkv)
                      : Multiply(normed, w.qkv, qkv);
       },
       [&] {
         if (layer > 0) return absl::OkStatus();
         return cuda::RoundingLoss(stream_, hidden, w.attention_norm, eps, normed, loss);
       },
       [&] {
         if (layer > 0) return absl::OkStatus();
         return small ? cuda::AddSmallProduct(stream_, Small(loss), w.qkv, qkv)
                      : Multiply(loss, w.qkv, qkv, true);
       },
       [&] {
         const bool adds_bias = w.qkv_bias != nullptr && !small;
         return adds_bias ? cuda::AddBias(stream_, qkv, w.qkv_bias) : absl::OkStatus();
       }});
}

absl::Status CudaProducts::AddAttended(uint32_t layer, const Tensor& attended,
                                       const Tensor& hidden) {
  const DeviceLayerWeights& w = weights_.layers[layer];
  return AddProduct(attended, w.out, w.post_attention_norm, w.ffn_norm, hidden);
}

absl::Status CudaProducts::AddFeedForward(uint32_t layer, const Tensor& hidden) {
  const DeviceLayerWeights& w = weights_.layers[layer];
  const bool is_last = layer + 1 == config().num_layers;
  const float* next_norm = is_last ? nullptr : weights_.layers[layer + 1].attention_norm;
  absl::Status status = GateUp(w, hidden);
  if (!status.ok()) return status;
  return AddProduct(ffn_.Rows(hidden.rows), w.down, w.post_ffn_norm, next_norm, hidden);
}

absl::Status CudaProducts::GateUp(const DeviceLayerWeights& weights, const Tensor& hidden) {
  const Tensor ffn = ffn_.Rows(hidden.rows);
  const kernels::Activation activation = ActivationOf(config().features);
  if (NormsInside(hidden.rows)) {
    return cuda::SmallGlu(stream_, Small(hidden, weights.ffn_norm), activation, weights.gate_up,
                          ffn);
  }
  const bool is_normed = Parts(hidden.rows, weights.out) > 1;
  absl::Status status =
      is_normed ? absl::OkStatus() : Norm(hidden, weights.ffn_norm, /*missing=*/true);
  if (!status.ok()) return status;
  const Tensor normed = normed_.Rows(hidden.rows);
  if (IsSmall(hidden.rows)) {
    return cuda::SmallGlu(stream_, Small(normed), activation, weights.gate_up, ffn);
  }
  const Tensor gate_up = gate_up_.Rows(hidden.rows);
  status = Multiply(normed, weights.gate_up, gate_up);
  return status.ok() ? cuda::Glu(stream_, activation, gate_up, ffn) : status;
}

absl::Status CudaProducts::AddProduct(const Tensor& in, const ConstTensor& weight,
                                      const float* post_norm, const float* norm,
                                      const Tensor& hidden) {
  if (post_norm != nullptr) return AddNormedProduct(in, weight, post_norm, hidden);
  if (const cuda::PartialSums parts = PartsOf(in.rows, weight); parts.count > 1) {
    absl::Status status = gemm_->MultiplyInParts(stream_, in, weight, parts);
    if (!status.ok()) return status;
    return cuda::AddPartsRmsNorm(stream_, parts, hidden, norm, config().norm_eps,
                                 normed_.Rows(in.rows));
  }
  const bool small = IsSmall(in.rows);
  if (communicator_ == nullptr) {
    return small ? cuda::AddSmallProduct(stream_, Small(in), weight, hidden)
                 : Multiply(in, weight, hidden, true);
  }
  const Tensor partial = communicator_->partial(in.rows);
  absl::Status status = small ? cuda::SmallProduct(stream_, Small(in), weight, nullptr, partial)
                              : Multiply(in, weight, partial);
  return status.ok() ? communicator_->AllReduce(stream_, in.rows) : status;
}

absl::Status CudaProducts::AddNormedProduct(const Tensor& in, const ConstTensor& weight,
                                            const float* post_norm, const Tensor& hidden) {
  const Tensor added =
      communicator_ == nullptr ? added_.Rows(in.rows) : communicator_->partial(in.rows);
  return cuda::RunAll(
      {[&] {
         return IsSmall(in.rows) ? cuda::SmallProduct(stream_, Small(in), weight, nullptr, added)
                                 : Multiply(in, weight, added);
       },
       [&] {
         return communicator_ == nullptr ? absl::OkStatus()
                                         : communicator_->AllReduce(stream_, in.rows);
       },
       [&] { return cuda::AddNormed(stream_, added, post_norm, config().norm_eps, hidden); }});
}

absl::Status CudaProducts::Finish(const Tensor& hidden) {
  if (communicator_ == nullptr || has_post_norms()) return absl::OkStatus();
  return Norm(hidden, weights_.final_norm, /*missing=*/true);
}

absl::StatusOr<Tensor> CudaProducts::Logits(const Tensor& hidden) {
  FOLIO_CHECK(hidden.rows <= max_logit_rows_);
  const Tensor logits = logits_.Rows(hidden.rows);
  absl::Status status = Norm(hidden, weights_.final_norm, /*missing=*/false);
  if (status.ok()) status = Multiply(normed_.Rows(hidden.rows), weights_.output, logits);
  if (!status.ok()) return status;
  return logits;
}

}  // namespace folio::model
