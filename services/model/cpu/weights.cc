#include "services/model/cpu/weights.h"

#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "services/model/executor/forward_rows.h"
#include "services/model/source/stored_matrices.h"

namespace folio::model {
namespace {

using kernels::bf16;
using kernels::Matrix;
using kernels::cpu::CpuOps;
using kernels::cpu::PackedWeights;

// The features that Transformer computes.
constexpr Features kComputed = {Feature::kQkvBias,         Feature::kHeadNorms,
                                Feature::kPostNorms,       Feature::kGelu,
                                Feature::kScaledEmbedding, Feature::kLocalLayers,
                                Feature::kUnrotatedLayers, Feature::kScaledQueries};

Matrix<const bf16> View(const std::vector<bf16>& values, size_t cols) {
  return {values.data(), values.size() / cols, cols, cols};
}

// The matrices of all roles as they are stored, one below the other. Null if one must be bf16.
std::unique_ptr<PackedWeights> Pack(const CpuOps& ops, StoredMatrices& stored,
                                    absl::Span<const Role> roles) {
  const StoredMatrices::Matrices matrices = stored.Read(roles);
  if (matrices.empty()) return nullptr;
  std::vector<const kernels::QuantizedMatrix*> parts;
  for (const auto& matrix : matrices) parts.push_back(matrix.get());
  return ops.PackQuantized(parts);
}

// The gate and up matrices likewise.
std::unique_ptr<PackedWeights> PackGated(const CpuOps& ops, StoredMatrices& stored,
                                         kernels::Activation activation) {
  const StoredMatrices::Matrices matrices = stored.Read({Role::kGate, Role::kUp});
  if (matrices.empty()) return nullptr;
  return ops.PackGatedQuantized(*matrices[0], *matrices[1], activation);
}

absl::StatusOr<LayerWeights> LoadLayer(const ModelSource& source, const CpuOps& ops,
                                       StoredMatrices& stored, uint32_t layer) {
  const ModelConfig& c = source.config();
  TensorReader read(source, layer);
  const auto pack = [&](Role role) {
    if (auto packed = Pack(ops, stored, {role})) return packed;
    return ops.Pack(View(read.Matrix(role), SizeOf(InfoOf(role).cols, c)));
  };
  LayerWeights weights;
  weights.attention_norm = read.Vector(Role::kAttentionNorm);
  weights.ffn_norm = read.Vector(Role::kFfnNorm);
  // The first layer's are exact, for the reason that Transformer::AddRoundingLoss has.
  if (layer > 0) weights.qkv = Pack(ops, stored, kQkvRoles);
  if (weights.qkv == nullptr) weights.qkv = ops.Pack(View(read.Matrices(kQkvRoles), c.hidden));
  if (c.features.has(Feature::kQkvBias)) weights.qkv_bias = read.Vectors(kQkvBiasRoles);
  if (c.features.has(Feature::kHeadNorms)) {
    weights.query_norm = read.Vector(Role::kQueryNorm);
    weights.key_norm = read.Vector(Role::kKeyNorm);
  }
  if (c.features.has(Feature::kPostNorms)) {
    weights.post_attention_norm = read.Vector(Role::kPostAttentionNorm);
    weights.post_ffn_norm = read.Vector(Role::kPostFfnNorm);
  }
  weights.out = pack(Role::kAttentionOut);
  weights.gate_up = PackGated(ops, stored, ActivationOf(c.features));
  if (weights.gate_up == nullptr) {
    const std::vector<bf16> gate = read.Matrix(Role::kGate);
    const std::vector<bf16> up = read.Matrix(Role::kUp);
    weights.gate_up =
        ops.PackGated(View(gate, c.hidden), View(up, c.hidden), ActivationOf(c.features));
  }
  weights.down = pack(Role::kDown);
  if (!stored.status().ok()) return stored.status();
  if (!read.status().ok()) return read.status();
  return weights;
}

// Embedding, output and final norm. A tied matrix that is held as it is stored is held once.
absl::Status LoadEnds(const ModelSource& source, const CpuOps& ops, StoredMatrices& stored,
                      ModelWeights& weights) {
  const ModelConfig& c = source.config();
  TensorReader read(source, 0);
  weights.final_norm = read.Vector(Role::kFinalNorm);
  weights.stored_embedding = Pack(ops, stored, {Role::kEmbedding});
  if (weights.stored_embedding == nullptr) weights.embedding = read.Matrix(Role::kEmbedding);
  if (!c.tied_embeddings) {
    weights.output = Pack(ops, stored, {Role::kOutput});
    if (weights.output == nullptr) {
      weights.output = ops.Pack(View(read.Matrix(Role::kOutput), c.hidden));
    }
  } else if (weights.stored_embedding != nullptr) {
    weights.output = weights.stored_embedding;
  } else {
    weights.output = ops.Pack(weights.embedding_matrix());
  }
  return stored.status().ok() ? read.status() : stored.status();
}

}  // namespace

size_t ModelWeights::bytes() const {
  size_t sum = embedding.size() * sizeof(bf16) + final_norm.size() * sizeof(float);
  if (output != nullptr) sum += output->bytes();
  if (stored_embedding != nullptr && stored_embedding != output) sum += stored_embedding->bytes();
  for (const LayerWeights& layer : layers) {
    for (const auto* vector :
         {&layer.attention_norm, &layer.ffn_norm, &layer.qkv_bias, &layer.query_norm,
          &layer.key_norm, &layer.post_attention_norm, &layer.post_ffn_norm}) {
      sum += vector->size() * sizeof(float);
    }
    for (const auto* part : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) {
      sum += (*part)->bytes();
    }
  }
  return sum;
}

absl::StatusOr<std::shared_ptr<const ModelWeights>> LoadWeights(const ModelSource& source,
                                                                const CpuOps& ops,
                                                                kernels::ThreadPool& threads,
                                                                const LoadProgress& progress,
                                                                HeldWeights held) {
  absl::Status computed = CheckFeatures(source.config(), kComputed, "the CPU transformer");
  if (!computed.ok()) return computed;
  auto weights = std::make_shared<ModelWeights>();
  weights->config = source.config();
  const uint32_t layers = weights->config.num_layers;
  weights->layers.resize(layers);
  absl::Mutex mutex;  // guards weights->held
  absl::Status status = ReadParts(layers, threads, progress, [&](std::optional<uint32_t> of) {
    StoredMatrices stored(source, held, of.value_or(0));
    absl::Status loaded;
    if (!of.has_value()) {
      loaded = LoadEnds(source, ops, stored, *weights);
    } else {
      absl::StatusOr<LayerWeights> layer = LoadLayer(source, ops, stored, *of);
      loaded = layer.status();
      if (layer.ok()) weights->layers[*of] = *std::move(layer);
    }
    absl::MutexLock lock(&mutex);
    weights->held.Add(stored.counts());
    return loaded;
  });
  if (!status.ok()) return status;
  return weights;
}

}  // namespace folio::model
