// A model on disk, GGUF file or Hugging Face directory, behind one interface: what the transformer
// needs to be built, in Hugging Face's order (Q and K rows not permuted), whatever the container.
#ifndef FOLIO_SERVICES_MODEL_MODEL_SOURCE_H_
#define FOLIO_SERVICES_MODEL_MODEL_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/views.h"

namespace folio::model {

// Llama-3 rescaling of the rotary frequencies.
struct RopeScaling {
  float factor = 1;
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  uint32_t original_context = 8192;
};

struct ModelConfig {
  std::string name;
  std::string architecture;  // "llama"
  uint32_t num_layers = 0;
  uint32_t hidden = 0;
  uint32_t ffn = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocab = 0;
  uint32_t output_rows = 0;  // rows of the output matrix; 0: the whole vocabulary
  uint32_t context = 0;
  float rope_theta = 10000;
  // Explicit divisors of the inverse frequencies, [head_dim / 2] (GGUF rope_freqs.weight), or
  // scaling, or neither.
  std::vector<float> rope_divisors;
  std::optional<RopeScaling> rope_scaling;
  float norm_eps = 1e-5f;
  bool tied_embeddings = false;

  uint32_t outputs() const { return output_rows != 0 ? output_rows : vocab; }
};

// What the tokenizer is made from.
struct TokenizerSpec {
  std::string tokenizer_json;        // in the format of the `tokenizers` crate
  std::string chat_template;         // Jinja; empty: none
  std::string bos_token, eos_token;  // text, for the template; may be empty
  std::vector<uint32_t> eos_ids;     // any of these ends generation
  bool add_bos = false;
  uint32_t bos_id = 0;
};

enum class Role {
  kEmbedding,  // [vocab, hidden]
  kOutput,     // [vocab, hidden]; equals kEmbedding when tied
  kFinalNorm,  // [hidden]
  kAttentionNorm,
  kFfnNorm,  // [hidden], per layer
  kQuery,    // [heads * head_dim, hidden]
  kKey,
  kValue,         // [kv_heads * head_dim, hidden]
  kAttentionOut,  // [hidden, heads * head_dim]
  kGate,
  kUp,    // [ffn, hidden]
  kDown,  // [hidden, ffn]
};

// Memory-mapped; reading converts one tensor at a time. Thread-compatible.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const TokenizerSpec& tokenizer() const = 0;

  // Row-major, dequantised in float32 and rounded to bf16. `layer` is ignored for the roles without
  // one. DATA_LOSS names the tensor that holds a NaN or an infinity.
  virtual absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role,
                                                                uint32_t layer) const = 0;
  virtual absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const = 0;

  // Hex digest over configuration and tensor bytes; equal for equal models, cheap enough for
  // start-up.
  virtual std::string fingerprint() const = 0;
};

// `path` is a .gguf file or a directory with config.json. Everything is checked before it returns:
// header, bounds, shapes, types, completeness. Errors name the file and the field or tensor.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& path);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_MODEL_SOURCE_H_
