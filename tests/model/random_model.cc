#include "tests/model/random_model.h"

#include <cmath>
#include <limits>
#include <random>

#include "services/common/check.h"

namespace folio::model::testing {

ModelConfig TinyConfig() {
  ModelConfig config;
  config.name = "tiny";
  config.architecture = "llama";
  config.num_layers = 2;
  config.hidden = 40;
  config.ffn = 52;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 24;
  config.vocab = 101;
  config.context = 600;
  config.rope_theta = 10000;
  config.norm_eps = 1e-5f;
  return config;
}

RandomModel::RandomModel(ModelConfig config, uint64_t seed) : config_(std::move(config)) {
  std::mt19937_64 random(seed);
  const auto matrix = [&](Role role, uint32_t layer, size_t rows, size_t cols, float gain) {
    std::normal_distribution<float> normal(0, gain / std::sqrt(static_cast<float>(cols)));
    std::vector<kernels::bf16>& values = matrices_[{role, layer}];
    for (size_t i = 0; i < rows * cols; ++i) values.push_back(kernels::bf16::Round(normal(random)));
  };
  const auto vector = [&](Role role, uint32_t layer) {
    std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
    std::vector<float>& values = vectors_[{role, layer}];
    for (size_t i = 0; i < config_.hidden; ++i) values.push_back(uniform(random));
  };
  const size_t hidden = config_.hidden;
  const size_t q_rows = size_t{config_.heads} * config_.head_dim;
  const size_t kv_rows = size_t{config_.kv_heads} * config_.head_dim;
  matrix(Role::kEmbedding, 0, config_.vocab, hidden, 3);
  if (!config_.tied_embeddings) matrix(Role::kOutput, 0, config_.vocab, hidden, 3);
  vector(Role::kFinalNorm, 0);
  for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    vector(Role::kAttentionNorm, layer);
    vector(Role::kFfnNorm, layer);
    // Sharp attention, so that a token more or less is seen in the logits.
    matrix(Role::kQuery, layer, q_rows, hidden, 2);
    matrix(Role::kKey, layer, kv_rows, hidden, 2);
    matrix(Role::kValue, layer, kv_rows, hidden, 1);
    matrix(Role::kAttentionOut, layer, hidden, q_rows, 1);
    matrix(Role::kGate, layer, config_.ffn, hidden, 1);
    matrix(Role::kUp, layer, config_.ffn, hidden, 1);
    matrix(Role::kDown, layer, hidden, config_.ffn, 1);
  }
}

absl::StatusOr<std::vector<kernels::bf16>> RandomModel::ReadMatrix(Role role,
                                                                   uint32_t layer) const {
  if (role == Role::kOutput && config_.tied_embeddings) role = Role::kEmbedding;
  const bool layered = role != Role::kEmbedding && role != Role::kOutput;
  return matrices_.at({role, layered ? layer : 0});
}

absl::StatusOr<std::vector<float>> RandomModel::ReadVector(Role role, uint32_t layer) const {
  return vectors_.at({role, role == Role::kFinalNorm ? 0 : layer});
}

TestPool::TestPool(const ModelConfig& config, uint32_t num_pages, uint32_t page_tokens) {
  const CacheGeometry geometry = {config.num_layers, config.kv_heads, config.head_dim, page_tokens};
  pages_.assign(num_pages * geometry.page_bytes(), std::byte{0xff});  // NaN in bf16
  scores_.assign(geometry.score_board_floats(num_pages), std::numeric_limits<float>::quiet_NaN());
  view_ = {pages_.data(), scores_.data(), num_pages, geometry};
}

std::vector<std::vector<PageRef>> TestPool::Take(uint32_t count) {
  std::vector<std::vector<PageRef>> taken(view_.geometry.num_layers);
  // Layers interleaved and out of order, so that no test leans on neighbouring pages.
  for (uint32_t i = 0; i < count; ++i) {
    for (auto& layer : taken) {
      FOLIO_CHECK(next_ < view_.num_pages);
      const uint32_t page = view_.num_pages - 1 - next_++;
      layer.push_back({PageId(page), Generation(7 + page)});
    }
  }
  return taken;
}

}  // namespace folio::model::testing
