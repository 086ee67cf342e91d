// Requantized is a model whose layers hold the numbers that another one's have once they are
// quantised to E4M3, so that the errors of activations are what a comparison shows. The first
// layer's queries, keys and values are not quantised.
#ifndef FOLIO_TESTS_GPU_REQUANTIZED_H_
#define FOLIO_TESTS_GPU_REQUANTIZED_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/source/model_source.h"

namespace folio::model::testing {

class Requantized final : public ModelSource {
 public:
  explicit Requantized(const ModelSource& of) : of_(of) {}
  const ModelConfig& config() const override { return of_.config(); }
  const TokenizerSpec& tokenizer() const override { return of_.tokenizer(); }
  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t layer) const override {
    const bool of_attention = role == Role::kQuery || role == Role::kKey || role == Role::kValue;
    if (!InfoOf(role).in_layer || (layer == 0 && of_attention)) return of_.ReadMatrix(role, layer);
    const auto matrix = of_.ReadScaled(role, layer);
    if (!matrix.ok()) return matrix.status();
    const size_t cols = matrix->codes.size() / matrix->scales.size();
    std::vector<kernels::bf16> values;
    for (size_t i = 0; i < matrix->codes.size(); ++i) {
      values.push_back(kernels::bf16::Round(matrix->codes[i].ToFloat() * matrix->scales[i / cols]));
    }
    return values;
  }
  absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const override {
    return of_.ReadVector(role, layer);
  }
  std::string fingerprint() const override { return of_.fingerprint(); }

 private:
  const ModelSource& of_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_REQUANTIZED_H_
