#include "services/model/weights.h"

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "services/common/check.h"

namespace folio::model {
namespace {

using kernels::bf16;
using kernels::Matrix;
using kernels::cpu::CpuOps;
using kernels::cpu::PackedWeights;

Matrix<const bf16> View(const std::vector<bf16>& values, size_t cols) {
  return {values.data(), values.size() / cols, cols, cols};
}

absl::Status WrongSize(absl::string_view tensor, uint32_t layer, size_t want, size_t got) {
  return absl::InvalidArgumentError(absl::StrCat(tensor, " of layer ", layer, " has ", got,
                                                 " elements, the configuration wants ", want));
}

// Reads tensors of one layer and keeps the first error.
class LayerReader {
 public:
  LayerReader(const ModelSource& source, uint32_t layer) : source_(source), layer_(layer) {}

  std::vector<bf16> Matrix(Role role, absl::string_view name, size_t rows, size_t cols) {
    return Take(source_.ReadMatrix(role, layer_), name, rows * cols);
  }
  std::vector<float> Vector(Role role, absl::string_view name, size_t size) {
    return Take(source_.ReadVector(role, layer_), name, size);
  }
  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  std::vector<T> Take(absl::StatusOr<std::vector<T>> read, absl::string_view name, size_t want) {
    if (!read.ok()) {
      status_.Update(read.status());
    } else if (read->size() != want) {
      status_.Update(WrongSize(name, layer_, want, read->size()));
    }
    // The right size whatever happened, so that packing goes on; the result is thrown away.
    if (!status_.ok()) return std::vector<T>(want);
    return *std::move(read);
  }

  const ModelSource& source_;
  uint32_t layer_;
  absl::Status status_;
};

absl::StatusOr<LayerWeights> LoadLayer(const ModelSource& source, const CpuOps& ops,
                                       uint32_t layer) {
  const ModelConfig& c = source.config();
  const size_t q_rows = size_t{c.heads} * c.head_dim;
  const size_t kv_rows = size_t{c.kv_heads} * c.head_dim;
  LayerReader read(source, layer);
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
  LayerReader read(source, 0);
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
  absl::Mutex mutex;
  absl::Status status;  // the first error
  uint32_t done = 0;
  // Task 0 is the embedding, the largest; then the layers.
  threads.ParallelFor(static_cast<int>(layers) + 1, [&](int task, int) {
    {
      absl::MutexLock lock(&mutex);
      if (!status.ok()) return;
    }
    absl::Status result;
    if (task == 0) {
      result = LoadEnds(source, ops, *weights);
    } else if (auto layer = LoadLayer(source, ops, task - 1); layer.ok()) {
      weights->layers[task - 1] = *std::move(layer);
    } else {
      result = layer.status();
    }
    absl::MutexLock lock(&mutex);
    status.Update(result);
    ++done;
    if (status.ok() && progress) progress(static_cast<int>(100 * done / (layers + 1)));
  });
  if (!status.ok()) return status;
  return weights;
}

}  // namespace folio::model
