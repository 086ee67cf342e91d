// PaddedHeads is a model whose heads got dimensions of zeros, so that kernels that serve few sizes
// of heads can compute it. It says what the model says, as far as rounding goes. Its cache is
// larger by these dimensions.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_PADDED_HEADS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_PADDED_HEADS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "services/model/source/model_source.h"

namespace folio::model {

// Rows of queries, keys and values and columns of the output projection become more. Both halves of
// a head grow alike, so that pairs of rotary embedding stay pairs. Scores are divided by the root
// of the old size still. Thread-compatible.
class PaddedHeads final : public ModelSource {
 public:
  // Norms of heads would count the zeros.
  static bool Serves(const ModelConfig& config);

  // PaddedHeads serves the model, and `head_dim` is even and larger than the model's (CHECKed).
  PaddedHeads(std::unique_ptr<ModelSource> model, uint32_t head_dim);

  const ModelConfig& config() const override { return config_; }
  const TokenizerSpec& tokenizer() const override { return model_->tokenizer(); }
  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t layer) const override;
  absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const override;
  absl::StatusOr<ScaledMatrix> ReadScaled(Role role, uint32_t layer) const override;
  // UNIMPLEMENTED also for the output projection, whose blocks the zeros would cut.
  absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(
      Role role, uint32_t layer) const override;
  std::string fingerprint() const override { return model_->fingerprint(); }

 private:
  const std::unique_ptr<ModelSource> model_;
  const ModelConfig config_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_PADDED_HEADS_H_
