#include "services/model/cuda/device_weights.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/quantized_matrix.h"
#include "services/base/check.h"
#include "services/model/cuda/stored_layers.h"
#include "services/model/cuda/weight_sender.h"

namespace folio::model {
namespace {

using kernels::bf16;
using kernels::cuda::ConstTensor;
using kernels::cuda::DataType;
using kernels::cuda::QuantizedParts;

// The features that CudaTransformer computes.
constexpr Features kComputed = {Feature::kQkvBias,         Feature::kHeadNorms,
                                Feature::kPostNorms,       Feature::kGelu,
                                Feature::kScaledEmbedding, Feature::kLocalLayers,
                                Feature::kUnrotatedLayers, Feature::kScaledQueries};

// The vectors that layers have with a feature.
struct OptionalVector {
  Feature feature;
  Role role;
  const float* DeviceLayerWeights::*place;
};
constexpr OptionalVector kOptionalVectors[] = {
    {Feature::kHeadNorms, Role::kQueryNorm, &DeviceLayerWeights::query_norm},
    {Feature::kHeadNorms, Role::kKeyNorm, &DeviceLayerWeights::key_norm},
    {Feature::kPostNorms, Role::kPostAttentionNorm, &DeviceLayerWeights::post_attention_norm},
    {Feature::kPostNorms, Role::kPostFfnNorm, &DeviceLayerWeights::post_ffn_norm},
};

// The matrices that one product computes, in the order of its rows.
constexpr Role kOutRoles[] = {Role::kAttentionOut};
constexpr Role kGateUpRoles[] = {Role::kGate, Role::kUp};
constexpr Role kDownRoles[] = {Role::kDown};

uint32_t RowsOf(Role role, const ModelConfig& config) { return SizeOf(InfoOf(role).rows, config); }

// Places one after another, first counted, then given.
class Places {
 public:
  Places(std::byte* base, const ModelConfig& config) : base_(base), config_(config) {}

  // One matrix of the rows of all `roles`.
  ConstTensor Matrices(absl::Span<const Role> roles, DataType type) {
    uint32_t rows = 0;
    for (const Role role : roles) rows += RowsOf(role, config_);
    const uint32_t cols = SizeOf(InfoOf(roles.front()).cols, config_);
    const size_t stride = type == DataType::kE4M3 ? cols : DeviceStride(cols);
    ConstTensor matrix(Take(rows * stride * kernels::cuda::BytesOf(type)), type, rows, cols,
                       stride);
    if (type == DataType::kE4M3) {
      matrix.scales = static_cast<const float*>(Take(rows * sizeof(float)));
    }
    return matrix;
  }
  ConstTensor Matrix(Role role, DataType type) { return Matrices({&role, 1}, type); }
  // The matrix of a product, quantised if `stored` has parts, which are described in `parts`.
  ConstTensor Product(absl::Span<const Role> roles, DataType type,
                      absl::Span<const StoredPart> stored, QuantizedParts& parts) {
    if (stored.empty()) return Matrices(roles, type);
    ConstTensor matrix(nullptr, DataType::kBf16, 0, stored.front().cols(), 0);
    parts.count = 0;
    for (const StoredPart& part : stored) {
      parts.at[parts.count++] = {static_cast<const std::byte*>(Take(part.bytes())), part.format(),
                                 part.rows()};
      matrix.rows += part.rows();
    }
    matrix.parts = &parts;
    return matrix;
  }
  // One vector of all `roles`.
  const float* Vectors(absl::Span<const Role> roles) {
    size_t size = 0;
    for (const Role role : roles) size += RowsOf(role, config_);
    return static_cast<const float*>(Take(size * sizeof(float)));
  }
  const float* Vector(Role role) { return Vectors({&role, 1}); }
  size_t bytes() const { return bytes_; }

 private:
  const void* Take(size_t bytes) {
    constexpr size_t kAlignment = 256;
    const size_t at = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : base_ + at;
  }

  std::byte* base_;
  const ModelConfig& config_;
  size_t bytes_ = 0;
};

// Gives every tensor its place behind `base`; returns how many bytes they take.
size_t Place(std::byte* base, DataType type, const StoredLayers& stored, DeviceWeights& weights) {
  const ModelConfig& c = weights.config;
  Places places(base, c);
  weights.embedding = places.Matrix(Role::kEmbedding, DataType::kBf16);
  weights.output =
      c.tied_embeddings ? weights.embedding : places.Matrix(Role::kOutput, DataType::kBf16);
  weights.final_norm = places.Vector(Role::kFinalNorm);
  weights.layers.resize(c.num_layers);
  // The first layer's keys and values follow from tokens alone, so that many scores are nearly the
  // same, and codes of four bits would choose others among them.
  const DataType first_qkv = type == DataType::kE4M3 ? DataType::kBf16 : type;
  for (uint32_t i = 0; i < c.num_layers; ++i) {
    DeviceLayerWeights& layer = weights.layers[i];
    const StoredLayer& held = stored.layers[i];
    layer.attention_norm = places.Vector(Role::kAttentionNorm);
    layer.qkv = places.Product(kQkvRoles, i == 0 ? first_qkv : type, held.qkv, layer.qkv_parts);
    if (c.features.has(Feature::kQkvBias)) layer.qkv_bias = places.Vectors(kQkvBiasRoles);
    for (const OptionalVector& each : kOptionalVectors) {
      if (c.features.has(each.feature)) layer.*each.place = places.Vector(each.role);
    }
    layer.out = places.Product(kOutRoles, type, held.out, layer.out_parts);
    layer.ffn_norm = places.Vector(Role::kFfnNorm);
    layer.gate_up = places.Product(kGateUpRoles, type, held.gate_up, layer.gate_up_parts);
    layer.down = places.Product(kDownRoles, type, held.down, layer.down_parts);
  }
  return places.bytes();
}

// The products of E4M3 want whole blocks of 16.
absl::Status CheckCodes(const DeviceLayerWeights& layer) {
  constexpr uint32_t kMultiple = kernels::cuda::kE4M3Multiple;
  for (const auto& [name, matrix] : {std::pair("the query, key and value matrices", layer.qkv),
                                     {"the attention output matrix", layer.out},
                                     {"the gate and up matrices", layer.gate_up},
                                     {"the down matrix", layer.down}}) {
    if (matrix.type != DataType::kE4M3) continue;
    if (matrix.rows % kMultiple == 0 && matrix.cols % kMultiple == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("FP8: ", name, " of a layer have the shape [", matrix.rows, ", ", matrix.cols,
                     "], and both numbers must be multiples of ", kMultiple, "; use bfloat16"));
  }
  return absl::OkStatus();
}

// Reads tensors and sends them; keeps the first error.
class Loader {
 public:
  Loader(const ModelSource& source, uint32_t layer, WeightSender& sender)
      : read_(source, layer), sender_(sender) {}

  // The rows of each role below those of the one before.
  void Matrices(absl::Span<const Role> roles, const ConstTensor& to) {
    size_t row = 0;
    for (const Role role : roles) {
      if (!status().ok()) return;
      if (to.type == DataType::kE4M3) {
        row += Scaled(role, to, row);
        continue;
      }
      const std::vector<bf16> values = read_.Matrix(role);
      if (!read_.status().ok()) return;
      auto* place = static_cast<bf16*>(const_cast<void*>(to.data)) + row * to.stride;
      sent_ = sender_.Send(absl::MakeConstSpan(values), to.cols, to.stride, place);
      row += values.size() / to.cols;
    }
  }
  void Matrix(Role role, const ConstTensor& to) { Matrices({&role, 1}, to); }
  // The matrix of a product, from the source or from its parts.
  void Product(absl::Span<const Role> roles, absl::Span<const StoredPart> stored,
               const ConstTensor& to) {
    if (to.parts == nullptr) return Matrices(roles, to);
    for (uint32_t i = 0; i < to.parts->count && status().ok(); ++i) {
      const std::vector<std::byte> packed = stored[i].Pack();
      constexpr size_t kUnit = kernels::cuda::kQuantizedMultiple;
      sent_ = sender_.Send(absl::MakeConstSpan(packed), kUnit, kUnit,
                           const_cast<std::byte*>(to.parts->at[i].data));
    }
  }
  // One after another.
  void Vectors(absl::Span<const Role> roles, const float* to) {
    if (!status().ok()) return;
    const std::vector<float> values = read_.Vectors(roles);
    if (!read_.status().ok()) return;
    sent_ = sender_.Send(absl::MakeConstSpan(values), values.size(), values.size(),
                         const_cast<float*>(to));
  }
  void Vector(Role role, const float* to) { Vectors({&role, 1}, to); }
  const absl::Status& status() const { return sent_.ok() ? read_.status() : sent_; }

 private:
  // Codes and scales of the rows from `first` on. Returns how many they are.
  size_t Scaled(Role role, const ConstTensor& to, size_t first) {
    const ScaledMatrix matrix = read_.Scaled(role);
    if (!read_.status().ok()) return 0;
    auto* place = static_cast<kernels::e4m3*>(const_cast<void*>(to.data)) + first * to.stride;
    sent_ = sender_.Send(absl::MakeConstSpan(matrix.codes), to.cols, to.stride, place);
    const size_t rows = matrix.scales.size();
    sent_.Update(sender_.Send(absl::MakeConstSpan(matrix.scales), rows, rows,
                              const_cast<float*>(to.scales) + first));
    return rows;
  }

  TensorReader read_;
  WeightSender& sender_;
  absl::Status sent_;
};

absl::Status LoadLayer(const DeviceLayerWeights& layer, const StoredLayer& stored, Loader load) {
  load.Vector(Role::kAttentionNorm, layer.attention_norm);
  load.Vector(Role::kFfnNorm, layer.ffn_norm);
  load.Product(kQkvRoles, stored.qkv, layer.qkv);
  if (layer.qkv_bias != nullptr) load.Vectors(kQkvBiasRoles, layer.qkv_bias);
  for (const OptionalVector& each : kOptionalVectors) {
    if (layer.*each.place != nullptr) load.Vector(each.role, layer.*each.place);
  }
  load.Product(kOutRoles, stored.out, layer.out);
  load.Product(kGateUpRoles, stored.gate_up, layer.gate_up);
  load.Product(kDownRoles, stored.down, layer.down);
  return load.status();
}

// Embedding, output and final norm.
absl::Status LoadEnds(const DeviceWeights& weights, Loader load) {
  load.Vector(Role::kFinalNorm, weights.final_norm);
  load.Matrix(Role::kEmbedding, weights.embedding);
  if (!weights.config.tied_embeddings) load.Matrix(Role::kOutput, weights.output);
  return load.status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const DeviceWeights>> LoadDeviceWeights(
    const ModelSource& source, DataType type, HeldWeights held, kernels::cuda::DeviceMemory& memory,
    kernels::ThreadPool& threads, const LoadProgress& progress) {
  FOLIO_CHECK(type == DataType::kBf16 || held == HeldWeights::kBfloat16);
  absl::Status computed = CheckFeatures(source.config(), kComputed, "the CUDA transformer");
  if (!computed.ok()) return computed;
  auto weights = std::make_unique<DeviceWeights>();
  weights->config = source.config();
  const auto stored = FindStoredLayers(source, held, threads);
  if (!stored.ok()) return stored.status();
  weights->held = stored->held;
  const size_t bytes = Place(nullptr, type, *stored, *weights);
  if (absl::Status served = CheckCodes(weights->layers.back()); !served.ok()) return served;
  auto allocated = memory.Allocate(bytes, "the weights");
  if (!allocated.ok()) return allocated.status();
  weights->memory = *std::move(allocated);
  Place(weights->memory.as<>(), type, *stored, *weights);
  if (const auto* made = dynamic_cast<const DeviceSource*>(&source); made != nullptr) {
    if (absl::Status status = made->Fill(*weights); !status.ok()) return status;
    return weights;
  }
  auto sender = WeightSender::Make();
  if (!sender.ok()) return sender.status();
  const DeviceWeights& w = *weights;
  absl::Status status =
      ReadParts(w.config.num_layers, threads, progress, [&](std::optional<uint32_t> layer) {
        if (!layer.has_value()) return LoadEnds(w, Loader(source, 0, **sender));
        return LoadLayer(w.layers[*layer], stored->layers[*layer],
                         Loader(source, *layer, **sender));
      });
  status.Update((*sender)->Finish());
  if (!status.ok()) return status;
  return weights;
}

}  // namespace folio::model
