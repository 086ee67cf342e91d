#include "tests/model/naive_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/views.h"

namespace folio::model::testing {
namespace {

Numbers ReadMatrix(const ModelSource& source, Role role, uint32_t layer) {
  const std::vector<kernels::bf16> values = *source.ReadMatrix(role, layer);
  Numbers numbers;
  for (const kernels::bf16 value : values) numbers.push_back(value.ToFloat());
  return numbers;
}

Numbers ReadVector(const ModelSource& source, Role role, uint32_t layer) {
  const std::vector<float> values = *source.ReadVector(role, layer);
  return {values.begin(), values.end()};
}

Numbers Times(const Numbers& matrix, const Numbers& x) {
  Numbers y(matrix.size() / x.size());
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t i = 0; i < x.size(); ++i) y[r] += matrix[r * x.size() + i] * x[i];
  }
  return y;
}

Numbers Norm(const Numbers& x, const Numbers& weight, double eps) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  Numbers y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

double Silu(double x) { return x / (1 + std::exp(-x)); }

double Gelu(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x * (1 + std::tanh(u)) / 2;
}

// Nothing is added where there is no bias.
void Add(Numbers& x, const Numbers& y) {
  if (y.empty()) return;
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

Numbers Stored(const Numbers& x) {
  Numbers y;
  for (const double v : x) y.push_back(kernels::bf16::Round(static_cast<float>(v)).ToFloat());
  return y;
}

}  // namespace

NaiveModel::NaiveModel(const ModelSource& source)
    : config_(source.config()),
      embedding_(ReadMatrix(source, Role::kEmbedding, 0)),
      output_(ReadMatrix(source, Role::kOutput, 0)),
      final_norm_(ReadVector(source, Role::kFinalNorm, 0)) {
  for (uint32_t l = 0; l < config_.num_layers; ++l) {
    Layer& layer = layers_.emplace_back();
    layer.attention_norm = ReadVector(source, Role::kAttentionNorm, l);
    layer.ffn_norm = ReadVector(source, Role::kFfnNorm, l);
    layer.q = ReadMatrix(source, Role::kQuery, l);
    layer.k = ReadMatrix(source, Role::kKey, l);
    layer.v = ReadMatrix(source, Role::kValue, l);
    layer.out = ReadMatrix(source, Role::kAttentionOut, l);
    layer.gate = ReadMatrix(source, Role::kGate, l);
    layer.up = ReadMatrix(source, Role::kUp, l);
    layer.down = ReadMatrix(source, Role::kDown, l);
    layer.other = config_.is_other(l);
    if (config_.features.has(Feature::kQkvBias)) {
      layer.q_bias = ReadVector(source, Role::kQueryBias, l);
      layer.k_bias = ReadVector(source, Role::kKeyBias, l);
      layer.v_bias = ReadVector(source, Role::kValueBias, l);
    }
    if (config_.features.has(Feature::kHeadNorms)) {
      layer.q_norm = ReadVector(source, Role::kQueryNorm, l);
      layer.k_norm = ReadVector(source, Role::kKeyNorm, l);
    }
    if (config_.features.has(Feature::kPostNorms)) {
      layer.post_attention_norm = ReadVector(source, Role::kPostAttentionNorm, l);
      layer.post_ffn_norm = ReadVector(source, Role::kPostFfnNorm, l);
    }
  }
}

void NaiveModel::NormHeads(const Numbers& weight, Numbers& heads) const {
  if (weight.empty()) return;
  for (auto first = heads.begin(); first != heads.end(); first += config_.head_dim) {
    const Numbers normed = Norm({first, first + config_.head_dim}, weight, config_.norm_eps);
    std::copy(normed.begin(), normed.end(), first);
  }
}

void NaiveModel::Rotate(const Layer& layer, Numbers& heads) const {
  const size_t dim = config_.head_dim;
  const double theta = layer.other ? config_.others->rope_theta : config_.rope_theta;
  if (theta == 0) return;
  for (size_t first = 0; first < heads.size(); first += dim) {
    for (size_t i = 0; i < dim / 2; ++i) {
      const double angle = position_ * std::pow(theta, -2.0 * static_cast<double>(i) / double(dim));
      const double lo = heads[first + i];
      const double hi = heads[first + i + dim / 2];
      heads[first + i] = lo * std::cos(angle) - hi * std::sin(angle);
      heads[first + i + dim / 2] = hi * std::cos(angle) + lo * std::sin(angle);
    }
  }
}

void NaiveModel::AddTo(Numbers& state, const Numbers& added, const Numbers& norm) const {
  Add(state, norm.empty() ? added : Norm(added, norm, config_.norm_eps));
}

Numbers NaiveModel::Shares(const Layer& layer, const Numbers& q, size_t head, size_t seen) const {
  const size_t dim = config_.head_dim;
  const size_t kv = head / (config_.heads / config_.kv_heads) * dim;
  Numbers share;
  double sum = 0;
  for (size_t t = 0; t < seen; ++t) {
    const uint32_t ago = layer.cache[seen - 1].position - layer.cache[t].position;
    if (layer.other && config_.window() != 0 && ago >= config_.window()) {
      share.push_back(0);
      continue;
    }
    double score = 0;
    for (size_t i = 0; i < dim; ++i) score += q[head * dim + i] * layer.cache[t].key[kv + i];
    share.push_back(std::exp(score / std::sqrt(double(dim))));
    sum += share.back();
  }
  for (double& s : share) s /= sum;
  return share;
}

Numbers NaiveModel::Attend(const Layer& layer, const Numbers& q) const {
  const size_t dim = config_.head_dim;
  const size_t group = config_.heads / config_.kv_heads;
  Numbers out(q.size());
  for (size_t h = 0; h < config_.heads; ++h) {
    const Numbers share = Shares(layer, q, h, layer.cache.size());
    for (size_t t = 0; t < share.size(); ++t) {
      for (size_t i = 0; i < dim; ++i) {
        out[h * dim + i] += share[t] * layer.cache[t].value[h / group * dim + i];
      }
    }
  }
  return out;
}

Numbers NaiveModel::WindowMass(uint32_t layer, uint32_t kv_head, uint32_t rows) const {
  const std::vector<Entry>& cache = layers_[layer].cache;
  const size_t group = config_.heads / config_.kv_heads;
  Numbers mass(cache.size());
  for (size_t row = cache.size() - rows; row < cache.size(); ++row) {
    for (size_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const Numbers share = Shares(layers_[layer], cache[row].query, h, row + 1);
      for (size_t t = 0; t <= row; ++t) mass[t] += share[t] / static_cast<double>(rows * group);
    }
  }
  Numbers pooled(mass.size());
  for (size_t t = 0; t < mass.size(); ++t) {
    for (size_t other = t < 3 ? 0 : t - 3; other < std::min(mass.size(), t + 4); ++other) {
      pooled[t] = std::max(pooled[t], mass[other]);
    }
  }
  return pooled;
}

Numbers NaiveModel::Feed(uint32_t token) {
  const size_t hidden = config_.hidden;
  Numbers x(embedding_.begin() + static_cast<ptrdiff_t>(token * hidden),
            embedding_.begin() + static_cast<ptrdiff_t>((token + 1) * hidden));
  for (double& v : x) v *= config_.embedding_scale;
  for (Layer& layer : layers_) {
    const Numbers normed = Norm(x, layer.attention_norm, config_.norm_eps);
    Numbers q = Times(layer.q, normed);
    Numbers k = Times(layer.k, normed);
    Numbers v = Times(layer.v, normed);
    Add(q, layer.q_bias);
    Add(k, layer.k_bias);
    Add(v, layer.v_bias);
    NormHeads(layer.q_norm, q);
    NormHeads(layer.k_norm, k);
    if (config_.query_scale) {
      const QueryScale& scale = *config_.query_scale;
      for (double& x : q) x *= 1 + scale.beta * std::log(1 + position_ / scale.original_context);
    }
    Rotate(layer, q);
    Rotate(layer, k);
    layer.cache.push_back({Stored(k), Stored(v), q, position_});
    AddTo(x, Times(layer.out, Attend(layer, q)), layer.post_attention_norm);
    const Numbers inner = Norm(x, layer.ffn_norm, config_.norm_eps);
    Numbers gate = Times(layer.gate, inner);
    const Numbers up = Times(layer.up, inner);
    const bool gelu = config_.features.has(Feature::kGelu);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = (gelu ? Gelu : Silu)(gate[i]) * up[i];
    AddTo(x, Times(layer.down, gate), layer.post_ffn_norm);
  }
  ++position_;
  return Times(output_, Norm(x, final_norm_, config_.norm_eps));
}

void NaiveModel::Keep(uint32_t layer, const std::vector<uint32_t>& entries) {
  std::vector<Entry> kept;
  kept.reserve(entries.size());
  for (const uint32_t entry : entries) kept.push_back(layers_[layer].cache[entry]);
  layers_[layer].cache = std::move(kept);
}

}  // namespace folio::model::testing
