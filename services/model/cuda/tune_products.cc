#include <algorithm>
#include <vector>

#include "services/model/cuda/cuda_products.h"
#include "services/model/cuda/decode_shapes.h"
#include "services/runtime/logging.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using cuda::ConstTensor;

// The matrix of the last layer, and that of a layer which holds it otherwise.
std::vector<ConstTensor> Kinds(const DeviceWeights& weights,
                               ConstTensor DeviceLayerWeights::*matrix) {
  std::vector<ConstTensor> kinds = {weights.layers.back().*matrix};
  for (const DeviceLayerWeights& layer : weights.layers) {
    const ConstTensor& other = layer.*matrix;
    const bool is_like =
        other.type == kinds[0].type && (other.parts == nullptr) == (kinds[0].parts == nullptr);
    if (is_like) continue;
    kinds.push_back(other);
    break;
  }
  return kinds;
}

}  // namespace

absl::Status CudaProducts::Tune(const Activations& hidden, const Activations& qkv,
                                const Activations& attended) {
  // Shapes of decode steps, then doubling.
  const auto next = [&](uint32_t rows) {
    return std::min(rows < kMaxPaddedRows ? PaddedRows(rows + 1, max_rows_) : 2 * rows, max_rows_);
  };
  for (uint32_t rows = 1;; rows = next(rows)) {
    const auto tune = [&](const Activations& in, const ConstTensor& weight, const Activations& out,
                          bool accumulate) {
      return gemm_->Tune(stream_, in.Rows(rows), weight, out.Rows(rows), accumulate);
    };
    const auto tune_layer = [&](const Activations& in, const ConstTensor& weight,
                                const Activations& out) {
      return IsSmall(rows) ? absl::OkStatus() : tune(in, weight, out, false);
    };
    const auto tune_sum = [&](const Activations& in, const ConstTensor& weight) {
      if (IsSmall(rows)) return absl::OkStatus();
      if (const cuda::PartialSums parts = PartsOf(rows, weight); parts.count > 1) {
        absl::Status tuned = gemm_->TuneInParts(stream_, in.Rows(rows), weight, parts);
        if (!absl::IsUnimplemented(tuned)) return tuned;
        log::Info("no product is computed in parts", {{"reason", tuned.message()}});
        in_parts_ = false;
      }
      if (communicator_ == nullptr && has_post_norms()) return tune(in, weight, added_, false);
      if (communicator_ == nullptr) return tune(in, weight, hidden, true);
      return gemm_->Tune(stream_, in.Rows(rows), weight, communicator_->partial(rows), false);
    };
    const auto each = [&](ConstTensor DeviceLayerWeights::*matrix, const auto& tune_one) {
      absl::Status status;
      for (const ConstTensor& kind : Kinds(weights_, matrix)) status.Update(tune_one(kind));
      return status;
    };
    using Layer = DeviceLayerWeights;
    absl::Status status = cuda::RunAll(
        {[&] { return each(&Layer::qkv, [&](auto& w) { return tune_layer(normed_, w, qkv); }); },
         [&] { return each(&Layer::out, [&](auto& w) { return tune_sum(attended, w); }); },
         [&] {
           return each(&Layer::gate_up, [&](auto& w) { return tune_layer(normed_, w, gate_up_); });
         },
         [&] { return each(&Layer::down, [&](auto& w) { return tune_sum(ffn_, w); }); },
         [&] {
           if (rows > max_logit_rows_) return absl::OkStatus();
           return tune(normed_, weights_.output, logits_, false);
         }});
    if (!status.ok() || rows == max_rows_) return status;
  }
}

}  // namespace folio::model
