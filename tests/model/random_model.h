// RandomModel is a model of any family with random weights, in memory. TestPool is a pool for it.
#ifndef FOLIO_TESTS_MODEL_RANDOM_MODEL_H_
#define FOLIO_TESTS_MODEL_RANDOM_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/views.h"
#include "services/base/ids.h"
#include "services/model/family/model_config.h"
#include "services/model/source/model_source.h"

namespace folio::model::testing {

// A configuration with two layers and grouped heads. No vector register's
// size divides those of its FFN and of its vocabulary.
ModelConfig TinyConfig();
// The same sizes with the features of another family, by its name.
// A window of local layers is longer than the context.
ModelConfig OfFamily(const std::string& family, ModelConfig config = TinyConfig());

// Weights drawn from `seed`; equal seeds give equal models.
class RandomModel final : public ModelSource {
 public:
  RandomModel(ModelConfig config, uint64_t seed);

  const ModelConfig& config() const override { return config_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }
  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t layer) const override;
  absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const override;
  std::string fingerprint() const override { return "random"; }

  // Replaces one tensor, e.g. by one of the wrong size.
  void SetMatrix(Role role, uint32_t layer, std::vector<kernels::bf16> values) {
    matrices_[{role, layer}] = std::move(values);
  }

 private:
  ModelConfig config_;
  TokenizerSpec tokenizer_;
  std::map<std::pair<Role, uint32_t>, std::vector<kernels::bf16>> matrices_;
  std::map<std::pair<Role, uint32_t>, std::vector<float>> vectors_;
};

// Pages and scores in ordinary memory, filled with NaN, so that a read of unwritten memory shows.
class TestPool {
 public:
  static constexpr uint32_t kSwapSlots = 64;

  TestPool(const ModelConfig& config, uint32_t num_pages, uint32_t page_tokens = 16);

  const kernels::PoolView& view() const { return view_; }
  // `count` pages for each layer, never given out before.
  std::vector<std::vector<PageRef>> Take(uint32_t count);
  // Fills a page with NaN, as broken memory might.
  void Damage(PageId page);
  // Makes all pages available again, with their old contents.
  void TakeBackAll() { next_ = 0; }

 private:
  std::vector<std::byte> pages_;
  std::vector<float> scores_;
  std::vector<float> swap_;
  kernels::PoolView view_;
  uint32_t next_ = 0;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_RANDOM_MODEL_H_
