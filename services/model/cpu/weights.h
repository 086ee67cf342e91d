// ModelWeights is a model's weights, packed for one family of CPU kernels.
#ifndef FOLIO_SERVICES_MODEL_CPU_WEIGHTS_H_
#define FOLIO_SERVICES_MODEL_CPU_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/ops.h"
#include "services/model/family/model_config.h"
#include "services/model/source/model_source.h"
#include "services/model/source/stored_matrices.h"
#include "services/model/source/tensor_reader.h"

namespace folio::model {

struct LayerWeights {
  std::vector<float> attention_norm;                      // [hidden]
  std::vector<float> post_attention_norm, post_ffn_norm;  // [hidden], or none
  std::unique_ptr<kernels::cpu::PackedWeights> qkv;       // [(heads + 2 kv_heads) * dim, hidden]
  std::vector<float> qkv_bias;                            // one for each row of qkv, or none
  std::vector<float> query_norm, key_norm;                // [head_dim], or none
  std::unique_ptr<kernels::cpu::PackedWeights> out;       // [hidden, heads * dim]
  std::vector<float> ffn_norm;                            // [hidden]
  std::unique_ptr<kernels::cpu::PackedWeights> gate_up;   // [ffn, hidden] twice
  std::unique_ptr<kernels::cpu::PackedWeights> down;      // [hidden, ffn]
};

// Immutable once loaded; any number of executors of the same family may share it.
struct ModelWeights {
  ModelConfig config;
  std::vector<kernels::bf16> embedding;  // [vocab, hidden] row-major, to look up, or empty and
  std::shared_ptr<kernels::cpu::PackedWeights> stored_embedding;  // as stored; or null
  std::shared_ptr<kernels::cpu::PackedWeights> output;  // [outputs, hidden], to multiply by
  std::vector<float> final_norm;                        // [hidden]
  std::vector<LayerWeights> layers;
  HeldMatrices held;

  kernels::Matrix<const kernels::bf16> embedding_matrix() const {
    return {embedding.data(), config.vocab, config.hidden, config.hidden};
  }
  size_t bytes() const;
};

// Reads and packs every tensor, layers in parallel on `threads` threads; at most one layer per
// thread is held unpacked. The source's own errors pass through; INVALID_ARGUMENT names a tensor of
// the wrong size, and UNIMPLEMENTED a feature that Transformer does not compute.
absl::StatusOr<std::shared_ptr<const ModelWeights>> LoadWeights(
    const ModelSource& source, const kernels::cpu::CpuOps& ops, kernels::ThreadPool& threads,
    const LoadProgress& progress = nullptr, HeldWeights held = HeldWeights::kBfloat16);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CPU_WEIGHTS_H_
