// TinyModel is a small seeded model of a family, such as llama. A fixed generator draws the
// weights, which are bf16 numbers, so the F32, F16 and BF16 forms of both containers hold exactly
// the same model. The Q forms are roundings of it. Equal options give equal bytes on every machine.
#ifndef FOLIO_TESTS_TESTING_TINY_MODEL_H_
#define FOLIO_TESTS_TESTING_TINY_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/model/family/model_config.h"
#include "services/model/family/role.h"
#include "services/model/source/dequantize.h"
#include "tests/testing/gguf_image.h"
#include "tests/testing/hf_image.h"

namespace folio::testing {

struct TinyOptions {
  uint64_t seed = 1;
  uint32_t layers = 2;
  uint32_t hidden = 64;
  uint32_t ffn = 128;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 16;
  uint32_t context = 2048;
  bool tied = true;
  float rope_theta = 10000;
  std::optional<model::RopeScaling> rope_scaling = std::nullopt;  // GGUF: as rope_freqs.weight
  std::string family = "llama";
};

// Numbers of the family gemma3, in which every second layer attends to all tokens.
inline constexpr uint32_t kTinyWindow = 40;
inline constexpr float kTinyLocalTheta = 500;
inline constexpr float kTinyQueryScalar = 25;

// Grouped queries with the head_dim of the reference model, wider than the hidden size.
inline TinyOptions TinyHeadDim64() {
  return {.seed = 2, .heads = 4, .kv_heads = 2, .head_dim = 64};
}

struct TinyTensor {
  model::Role role;
  uint32_t layer;
  std::vector<uint64_t> shape;  // row-major
  std::vector<float> values;    // in Hugging Face's order; each a bf16 number
};

class TinyModel {
 public:
  explicit TinyModel(const TinyOptions& options = {});

  const TinyOptions& options() const { return options_; }
  const std::vector<TinyTensor>& tensors() const { return tensors_; }
  const TinyTensor& Find(model::Role role, uint32_t layer) const;

  // Matrices in `type`, vectors in F32; with the tiny vocabulary.
  GgufImage Gguf(model::StorageType type) const;
  // kF32, kF16 or kBF16.
  HfImage Hf(model::StorageType type) const;

  void WriteGguf(const std::string& path,
                 model::StorageType type = model::StorageType::kBF16) const;
  void WriteHf(const std::string& directory,
               model::StorageType type = model::StorageType::kBF16) const;

 private:
  void Add(model::Role role, uint32_t layer, std::vector<uint64_t> shape, uint64_t& state);

  TinyOptions options_;
  std::vector<TinyTensor> tensors_;
};

// The divisors that llama.cpp's converter writes into rope_freqs.weight for this scaling.
std::vector<float> RopeDivisors(const model::RopeScaling& scaling, float theta, uint32_t head_dim);

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_TINY_MODEL_H_
