#include "tests/bench/random_source.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/bench/random_fill.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::bench {
namespace {

using kernels::cuda::ConstTensor;
using kernels::cuda::DataType;

struct Shape {
  const char* key;
  const char* name;
  uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
  bool tied;
};
// Of the models' config.json.
constexpr Shape kShapes[] = {{"1b", "Llama-3.2-1B", 16, 2048, 8192, 32, 8, 64, 128256, true},
                             {"3b", "Llama-3.2-3B", 28, 3072, 8192, 24, 8, 128, 128256, true},
                             {"8b", "Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256, false},
                             {"tiny", "tiny", 2, 64, 96, 2, 1, 64, 1000, true}};

// Random tensors one after another, of as many seeds.
class Filler {
 public:
  explicit Filler(kernels::cuda::Stream stream) : stream_(stream) {}

  void Matrix(const ConstTensor& to) {
    const float bound = std::sqrt(3.0f / static_cast<float>(to.cols));
    if (to.type == DataType::kE4M3) {
      constexpr float kMost = kernels::e4m3::kMax;
      Fill(to.data, to.rows * to.stride, DataType::kE4M3, -kMost, kMost);
      return Fill(to.scales, to.rows, DataType::kFloat32, bound / kMost, bound / kMost);
    }
    Fill(to.data, to.rows * to.stride, DataType::kBf16, -bound, bound);
  }
  void Norm(const float* to, uint32_t size) { Fill(to, size, DataType::kFloat32, 0.5f, 1.5f); }
  const absl::Status& status() const { return status_; }

 private:
  void Fill(const void* to, size_t count, DataType type, float low, float high) {
    if (!status_.ok()) return;
    status_ = FillRandom(stream_, const_cast<void*>(to), count, type, {low, high, ++seed_});
  }

  kernels::cuda::Stream stream_;
  uint64_t seed_ = 0;
  absl::Status status_;
};

absl::Status OnTheDevice() {
  return absl::UnimplementedError("random weights are on the device alone");
}

}  // namespace

absl::StatusOr<model::ModelConfig> NamedShape(const std::string& name, uint32_t context) {
  for (const Shape& shape : kShapes) {
    if (name != shape.key) continue;
    model::ModelConfig config;
    config.name = shape.name;
    config.architecture = "llama";
    config.num_layers = shape.layers;
    config.hidden = shape.hidden;
    config.ffn = shape.ffn;
    config.heads = shape.heads;
    config.kv_heads = shape.kv_heads;
    config.head_dim = shape.head_dim;
    config.vocab = shape.vocab;
    config.context = context;
    config.rope_theta = 500000;
    config.tied_embeddings = shape.tied;
    return config;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--models: no model ", name, "; there are 1b, 3b, 8b and tiny"));
}

namespace {

// Without the bytes that are no characters on their own. Random tokens would begin characters that
// no later token ends, and the worker would hold the tokens back that the steps are counted by.
nlohmann::json AsciiTokenizerJson() {
  constexpr uint32_t kFirstByte = testing::kTinyImEnd + 1;
  nlohmann::json tokenizer = testing::TinyTokenizerJson();
  const std::vector<std::string> tokens = testing::TinyTokens();
  for (uint32_t byte = 0x80; byte < 0x100; ++byte) {
    tokenizer["model"]["vocab"].erase(tokens[kFirstByte + byte]);
  }
  return tokenizer;
}

}  // namespace

RandomSource::RandomSource(model::ModelConfig config) : config_(std::move(config)) {
  tokenizer_.tokenizer_json = AsciiTokenizerJson().dump();
}

absl::StatusOr<std::vector<kernels::bf16>> RandomSource::ReadMatrix(model::Role, uint32_t) const {
  return OnTheDevice();
}
absl::StatusOr<std::vector<float>> RandomSource::ReadVector(model::Role, uint32_t) const {
  return OnTheDevice();
}

absl::Status RandomSource::Fill(const model::DeviceWeights& weights) const {
  const auto stream = kernels::cuda::OwnedStream::Create();
  if (!stream.ok()) return stream.status();
  Filler filler(stream->get());
  filler.Matrix(weights.embedding);
  if (!config_.tied_embeddings) filler.Matrix(weights.output);
  filler.Norm(weights.final_norm, config_.hidden);
  for (const model::DeviceLayerWeights& layer : weights.layers) {
    filler.Norm(layer.attention_norm, config_.hidden);
    filler.Norm(layer.ffn_norm, config_.hidden);
    for (const ConstTensor& matrix : {layer.qkv, layer.out, layer.gate_up, layer.down}) {
      filler.Matrix(matrix);
    }
  }
  if (!filler.status().ok()) return filler.status();
  filled_ = {weights.config,
             weights.embedding,
             weights.output,
             weights.final_norm,
             weights.layers,
             weights.held,
             {}};
  return kernels::cuda::WaitFor(stream->get());
}

ModelCosts CostsOf(const model::ModelConfig& c, DataType type) {
  const double hidden = c.hidden, layers = c.num_layers;
  const double q = double{1} * c.heads * c.head_dim;
  const double kv = double{1} * c.kv_heads * c.head_dim;
  ModelCosts costs;
  costs.layer_weights = layers * (hidden * (2 * q + 2 * kv) + 3 * hidden * c.ffn);
  costs.output_weights = hidden * c.outputs();
  costs.weight_bytes = static_cast<double>(kernels::cuda::BytesOf(type)) * costs.layer_weights +
                       2 * costs.output_weights;
  costs.kv_bytes = layers * 2 * kv * 2;
  costs.attention_flops = layers * 4 * q;
  return costs;
}

}  // namespace folio::bench
