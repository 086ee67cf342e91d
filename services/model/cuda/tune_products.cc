#include <algorithm>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/base/steady_time.h"
#include "services/model/cuda/cuda_products.h"
#include "services/model/cuda/decode_shapes.h"
#include "services/runtime/logging.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using cuda::ConstTensor;
using cuda::Tensor;

constexpr int kTimedLaunches = 3;

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

// The time of what `enqueue` does, once it is warm. Decode steps run as graphs, so it is tried as
// one, and the host's time for each kernel does not count.
absl::StatusOr<absl::Duration> TimeOfGraph(cuda::Stream stream,
                                           absl::FunctionRef<absl::Status()> enqueue) {
  absl::Status status = cuda::RunAll({enqueue, [&] { return cuda::WaitFor(stream); }});
  if (!status.ok()) return status;
  auto graph = cuda::Graph::Capture(stream, enqueue);
  if (!graph.ok()) return graph.status();
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < kTimedLaunches && status.ok(); ++i) {
    const SteadyTime start = SteadyNow();
    status = cuda::RunAll(
        {[&] { return graph->Launch(stream); }, [&] { return cuda::WaitFor(stream); }});
    best = std::min(best, SteadyNow() - start);
  }
  if (!status.ok()) return status;
  return best;
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
    if (!status.ok()) return status;
    if (rows == max_rows_) return ChooseSmallRows(hidden, qkv, attended);
  }
}

absl::Status CudaProducts::EnqueueLayers(const Tensor& hidden, const Tensor& qkv,
                                         const Tensor& attended) {
  absl::Status status;
  for (uint32_t layer = 0; layer < config().num_layers && status.ok(); ++layer) {
    const bool sums = communicator_ == nullptr;
    status = cuda::RunAll(
        {[&] { return Qkv(layer, hidden, qkv); },
         [&] { return sums ? AddAttended(layer, attended, hidden) : absl::OkStatus(); },
         [&] {
           return sums ? AddFeedForward(layer, hidden) : GateUp(weights_.layers[layer], hidden);
         }});
  }
  return status;
}

absl::Status CudaProducts::ChooseSmallRows(const Activations& hidden, const Activations& qkv,
                                           const Activations& attended) {
  constexpr uint32_t kRows = cuda::kMaxSmallRows;
  if (!chooses_small_rows_ || max_rows_ < kRows) return absl::OkStatus();
  const auto enqueue = [&] {
    return EnqueueLayers(hidden.Rows(kRows), qkv.Rows(kRows), attended.Rows(kRows));
  };
  const auto by_libraries = TimeOfGraph(stream_, enqueue);
  if (!by_libraries.ok()) return by_libraries.status();
  max_small_rows_ = kRows;
  const auto by_own = TimeOfGraph(stream_, enqueue);
  const bool own = by_own.ok() && *by_own < *by_libraries;
  if (!own) max_small_rows_ = cuda::kFewRows;
  if (!by_own.ok()) return by_own.status();
  log::Info("products of 9 to 16 rows", {{"kernels", own ? "own" : "libraries"},
                                         {"own", absl::FormatDuration(*by_own)},
                                         {"libraries", absl::FormatDuration(*by_libraries)}});
  return absl::OkStatus();
}

}  // namespace folio::model
