#include "services/model/weights.h"

#include <optional>
#include <utility>

namespace folio::model {
namespace {

using kernels::bf16;
using kernels::Matrix;
using kernels::cpu::CpuOps;
using kernels::cpu::PackedWeights;

Matrix<const bf16> View(const std::vector<bf16>& values, size_t cols) {
  return {values.data(), values.size() / cols, cols, cols};
}

absl::StatusOr<LayerWeights> LoadLayer(const ModelSource& source, const CpuOps& ops,
                                       uint32_t layer) {
  const ModelConfig& c = source.config();
  const size_t q_rows = size_t{c.heads} * c.head_dim;
  const size_t kv_rows = size_t{c.kv_heads} * c.head_dim;
  TensorReader read(source, layer);
  LayerWeights weights;
  weights.attention_norm = read.Vector(Role::kAttentionNorm, "the attention norm", c.hidden);
  weights.ffn_norm = read.Vector(Role::kFfnNorm, "the feed-forward norm", c.hidden);
  {
    std::vector<bf16> qkv = read.Matrix(Role::kQuery, "the query matrix", q_rows, c.hidden);
    for (const auto& [role, name] :
         {std::pair{Role::kKey, "the key matrix"}, std::pair{Role::kValue, "the value matrix"}}) {
      const std::vector<bf16> part = read.Matrix(role, name, kv_rows, c.hidden);
      qkv.insert(qkv.end(), part.begin(), part.end());
    }
    weights.qkv = ops.Pack(View(qkv, c.hidden));
  }
  weights.out = ops.Pack(View(
      read.Matrix(Role::kAttentionOut, "the attention output matrix", c.hidden, q_rows), q_rows));
  {
    const std::vector<bf16> gate = read.Matrix(Role::kGate, "the gate matrix", c.ffn, c.hidden);
    const std::vector<bf16> up = read.Matrix(Role::kUp, "the up matrix", c.ffn, c.hidden);
    weights.gate_up = ops.PackGated(View(gate, c.hidden), View(up, c.hidden));
  }
  weights.down =
      ops.Pack(View(read.Matrix(Role::kDown, "the down matrix", c.hidden, c.ffn), c.ffn));
  if (!read.status().ok()) return read.status();
  return weights;
}

// Embedding, output and final norm.
absl::Status LoadEnds(const ModelSource& source, const CpuOps& ops, ModelWeights& weights) {
  const ModelConfig& c = source.config();
  TensorReader read(source, 0);
  weights.final_norm = read.Vector(Role::kFinalNorm, "the final norm", c.hidden);
  weights.embedding = read.Matrix(Role::kEmbedding, "the embedding", c.vocab, c.hidden);
  if (c.tied_embeddings) {
    weights.output = ops.Pack(weights.embedding_matrix());
  } else {
    weights.output = ops.Pack(
        View(read.Matrix(Role::kOutput, "the output matrix", c.outputs(), c.hidden), c.hidden));
  }
  return read.status();
}

}  // namespace

size_t ModelWeights::bytes() const {
  size_t sum = embedding.size() * sizeof(bf16) + final_norm.size() * sizeof(float);
  if (output != nullptr) sum += output->bytes();
  for (const LayerWeights& layer : layers) {
    sum += (layer.attention_norm.size() + layer.ffn_norm.size()) * sizeof(float);
    for (const auto* part : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) {
      sum += (*part)->bytes();
    }
  }
  return sum;
}

absl::StatusOr<std::shared_ptr<const ModelWeights>> LoadWeights(const ModelSource& source,
                                                                const CpuOps& ops,
                                                                kernels::cpu::ThreadPool& threads,
                                                                const LoadProgress& progress) {
  auto weights = std::make_shared<ModelWeights>();
  weights->config = source.config();
  const uint32_t layers = weights->config.num_layers;
  weights->layers.resize(layers);
  absl::Status status = ReadParts(layers, threads, progress, [&](std::optional<uint32_t> of) {
    if (!of.has_value()) return LoadEnds(source, ops, *weights);
    absl::StatusOr<LayerWeights> layer = LoadLayer(source, ops, *of);
    if (!layer.ok()) return layer.status();
    weights->layers[*of] = *std::move(layer);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return weights;
}

}  // namespace folio::model
