#include "tests/model/random_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "services/base/check.h"
#include "services/model/family/family.h"

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

ModelConfig OfFamily(const std::string& family, ModelConfig config) {
  const Family* found = FindFamily(family);
  FOLIO_CHECK(found != nullptr);
  config.architecture = family;
  config.features = found->features;
  if (config.features.has(Feature::kScaledEmbedding)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  }
  const bool windows = config.features.has(Feature::kLocalLayers);
  if (windows || config.features.has(Feature::kUnrotatedLayers)) {
    OtherLayers& others = config.others.emplace();
    others.window = windows ? config.context : 0;
    others.rope_theta = windows ? 300 : 0;
    for (uint32_t l = 0; l < config.num_layers; ++l) others.layers.push_back(l % 2 == 0);
  }
  return config;
}

namespace {

// How much larger than its input a matrix makes its product.
float Gain(Role role) {
  switch (role) {
    case Role::kEmbedding:
    case Role::kOutput:
      return 3;
    case Role::kQuery:
    case Role::kKey:
      return 2;  // sharp attention, so that a token more or less is seen in the logits
    default:
      return 1;
  }
}

bool InLayer(Role role) { return InfoOf(role).in_layer; }

}  // namespace

RandomModel::RandomModel(ModelConfig config, uint64_t seed) : config_(std::move(config)) {
  std::mt19937_64 random(seed);
  const Family* family = FindFamily(config_.architecture);
  FOLIO_CHECK(family != nullptr);
  const auto draw = [&](Role role, uint32_t layer) {
    if (role == Role::kOutput && config_.tied_embeddings) return;
    const RoleInfo& info = InfoOf(role);
    const size_t rows = SizeOf(info.rows, config_);
    const size_t cols = SizeOf(info.cols, config_);
    if (info.vector()) {
      // Norms are near one, biases near zero and large enough to be seen.
      const bool norm = info.rows == Extent::kHidden || info.rows == Extent::kHeadDim;
      std::uniform_real_distribution<float> uniform(norm ? 0.5f : -1.0f, norm ? 1.5f : 1.0f);
      std::vector<float>& values = vectors_[{role, layer}];
      for (size_t i = 0; i < rows; ++i) values.push_back(uniform(random));
      return;
    }
    std::normal_distribution<float> normal(0, Gain(role) / std::sqrt(static_cast<float>(cols)));
    std::vector<kernels::bf16>& values = matrices_[{role, layer}];
    for (size_t i = 0; i < rows * cols; ++i) values.push_back(kernels::bf16::Round(normal(random)));
  };
  for (const TensorSpec& spec : family->tensors) {
    if (!InLayer(spec.role)) draw(spec.role, 0);
  }
  for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    for (const TensorSpec& spec : family->tensors) {
      if (InLayer(spec.role)) draw(spec.role, layer);
    }
  }
}

absl::StatusOr<std::vector<kernels::bf16>> RandomModel::ReadMatrix(Role role,
                                                                   uint32_t layer) const {
  if (role == Role::kOutput && config_.tied_embeddings) role = Role::kEmbedding;
  return matrices_.at({role, InLayer(role) ? layer : 0});
}

absl::StatusOr<std::vector<float>> RandomModel::ReadVector(Role role, uint32_t layer) const {
  return vectors_.at({role, InLayer(role) ? layer : 0});
}

TestPool::TestPool(const ModelConfig& config, uint32_t num_pages, uint32_t page_tokens) {
  const CacheGeometry geometry = GeometryFor(config, page_tokens);
  pages_.assign(num_pages * geometry.page_bytes(), std::byte{0xff});  // NaN in bf16
  scores_.assign(geometry.score_board_floats(num_pages), std::numeric_limits<float>::quiet_NaN());
  view_ = {pages_.data(), scores_.data(), num_pages, geometry};
  swap_.assign(kSwapSlots * geometry.swap_slot_bytes() / sizeof(float), 0.0F);
  view_.swap = {reinterpret_cast<std::byte*>(swap_.data()), kSwapSlots, scores_.data()};
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

void TestPool::Damage(PageId page) {
  const size_t bytes = view_.geometry.page_bytes();
  std::fill_n(pages_.begin() + page.value() * bytes, bytes, std::byte{0xff});
}

}  // namespace folio::model::testing
