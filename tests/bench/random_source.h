// RandomSource is a model of a well-known shape with random weights, which the device writes
// itself.
#ifndef FOLIO_TESTS_BENCH_RANDOM_SOURCE_H_
#define FOLIO_TESTS_BENCH_RANDOM_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/cuda/device_weights.h"

namespace folio::bench {

// The shapes of "1b" (Llama-3.2-1B), "3b" (Llama-3.2-3B), "8b" (Llama-3.1-8B) and "tiny", which
// only shows that the benchmark runs. `context` is the length of the tables of positions.
absl::StatusOr<model::ModelConfig> NamedShape(const std::string& name, uint32_t context);

// Products keep the magnitude of their inputs, so that numbers stay finite through any number of
// layers.
class RandomSource final : public model::DeviceSource {
 public:
  explicit RandomSource(model::ModelConfig config);

  const model::ModelConfig& config() const override { return config_; }
  const model::TokenizerSpec& tokenizer() const override { return tokenizer_; }
  std::string fingerprint() const override { return "random"; }
  // UNIMPLEMENTED, because the host never reads these weights.
  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(model::Role role,
                                                        uint32_t layer) const override;
  absl::StatusOr<std::vector<float>> ReadVector(model::Role role, uint32_t layer) const override;
  absl::Status Fill(const model::DeviceWeights& weights) const override;

  // The addresses of the last Fill. Its caller owns the memory.
  const model::DeviceWeights& filled() const { return filled_; }

 private:
  model::ModelConfig config_;
  model::TokenizerSpec tokenizer_;
  mutable model::DeviceWeights filled_;
};

// The bytes that a step reads and the operations that it computes.
struct ModelCosts {
  double weight_bytes = 0;     // that a decode step reads: all but the embedding's rows
  double layer_weights = 0;    // in products of the layers
  double output_weights = 0;   // in the last one
  double kv_bytes = 0;         // of one token, all layers
  double attention_flops = 0;  // of one query over one token, all layers
};
// `type` is that of the layers' matrices; the output matrix is bf16.
ModelCosts CostsOf(const model::ModelConfig& config, kernels::cuda::DataType type);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_RANDOM_SOURCE_H_
