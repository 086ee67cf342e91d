#include "tests/testing/tiny_model.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "tests/testing/quantize.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_metadata.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::testing {
namespace {

using model::Role;
using model::StorageType;

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers everywhere.
uint64_t Next(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

float Uniform(uint64_t& state) {  // in [-1, 1)
  return static_cast<float>(Next(state) >> 40) * 0x1p-23f - 1.0f;
}

struct RoleNames {
  Role role;
  const char* gguf;
  const char* hf;
  bool bias = false;
};

// Written down once more, so that a wrong name in the product is seen.
constexpr RoleNames kNames[] = {
    {Role::kEmbedding, "token_embd", "model.embed_tokens"},
    {Role::kOutput, "output", "lm_head"},
    {Role::kFinalNorm, "output_norm", "model.norm"},
    {Role::kAttentionNorm, "attn_norm", "input_layernorm"},
    {Role::kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {Role::kQuery, "attn_q", "self_attn.q_proj"},
    {Role::kKey, "attn_k", "self_attn.k_proj"},
    {Role::kValue, "attn_v", "self_attn.v_proj"},
    {Role::kAttentionOut, "attn_output", "self_attn.o_proj"},
    {Role::kGate, "ffn_gate", "mlp.gate_proj"},
    {Role::kUp, "ffn_up", "mlp.up_proj"},
    {Role::kDown, "ffn_down", "mlp.down_proj"},
    {Role::kQueryBias, "attn_q", "self_attn.q_proj", true},
    {Role::kKeyBias, "attn_k", "self_attn.k_proj", true},
    {Role::kValueBias, "attn_v", "self_attn.v_proj", true},
    {Role::kQueryNorm, "attn_q_norm", "self_attn.q_norm"},
    {Role::kKeyNorm, "attn_k_norm", "self_attn.k_norm"},
    {Role::kPostAttentionNorm, "post_attention_norm", "post_attention_layernorm"},
    {Role::kPostFfnNorm, "post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr RoleNames kFfnNormOfGemma = {Role::kFfnNorm, "ffn_norm", "pre_feedforward_layernorm"};

const RoleNames& NamesOf(Role role, const std::string& family = "") {
  if (role == Role::kFfnNorm && family == "gemma3") return kFfnNormOfGemma;
  for (const RoleNames& names : kNames) {
    if (names.role == role) return names;
  }
  FOLIO_CHECK(false);
  return kNames[0];
}

bool InLayer(Role role) {
  return role != Role::kEmbedding && role != Role::kOutput && role != Role::kFinalNorm;
}

std::string Name(const TinyTensor& tensor, const std::string& family, bool gguf) {
  const RoleNames& names = NamesOf(tensor.role, family);
  std::string base = absl::StrCat(gguf ? names.gguf : names.hf, names.bias ? ".bias" : ".weight");
  if (!InLayer(tensor.role)) return base;
  return absl::StrCat(gguf ? "blk." : "model.layers.", tensor.layer, ".", base);
}

// Rows of each head from (half, pair) to (pair, half).
std::vector<float> Interleave(const TinyTensor& tensor, uint32_t head_dim) {
  const size_t columns = tensor.shape[1];
  const size_t pairs = head_dim / 2;
  std::vector<float> out;
  out.reserve(tensor.values.size());
  for (size_t head = 0; head < tensor.shape[0] / head_dim; ++head) {
    for (size_t pair = 0; pair < pairs; ++pair) {
      for (size_t half = 0; half < 2; ++half) {
        const size_t row = head * head_dim + half * pairs + pair;
        const auto begin = tensor.values.begin() + static_cast<ptrdiff_t>(row * columns);
        out.insert(out.end(), begin, begin + static_cast<ptrdiff_t>(columns));
      }
    }
  }
  return out;
}

uint32_t GgmlCode(StorageType type) {
  switch (type) {
    case StorageType::kF32:
      return 0;
    case StorageType::kF16:
      return 1;
    case StorageType::kQ4_0:
      return 2;
    case StorageType::kQ4_1:
      return 3;
    case StorageType::kQ8_0:
      return 8;
    case StorageType::kBF16:
      return 30;
    default:  // of safetensors alone, or one that no tiny model has
      break;
  }
  FOLIO_CHECK(false);
  return 0;
}

const char* HfDtype(StorageType type) {
  FOLIO_CHECK(type == StorageType::kF32 || type == StorageType::kF16 || type == StorageType::kBF16);
  if (type == StorageType::kF32) return "F32";
  return type == StorageType::kF16 ? "F16" : "BF16";
}

}  // namespace

TinyModel::TinyModel(const TinyOptions& options) : options_(options) {
  uint64_t state = options.seed;
  const uint64_t hidden = options.hidden;
  const uint64_t queries = uint64_t{options.heads} * options.head_dim;
  const uint64_t keys = uint64_t{options.kv_heads} * options.head_dim;
  Add(Role::kEmbedding, 0, {kTinyVocab, hidden}, state);
  if (!options.tied) Add(Role::kOutput, 0, {kTinyVocab, hidden}, state);
  Add(Role::kFinalNorm, 0, {hidden}, state);
  for (uint32_t layer = 0; layer < options.layers; ++layer) {
    Add(Role::kAttentionNorm, layer, {hidden}, state);
    Add(Role::kFfnNorm, layer, {hidden}, state);
    Add(Role::kQuery, layer, {queries, hidden}, state);
    Add(Role::kKey, layer, {keys, hidden}, state);
    Add(Role::kValue, layer, {keys, hidden}, state);
    Add(Role::kAttentionOut, layer, {hidden, queries}, state);
    Add(Role::kGate, layer, {options.ffn, hidden}, state);
    Add(Role::kUp, layer, {options.ffn, hidden}, state);
    Add(Role::kDown, layer, {hidden, options.ffn}, state);
    if (options.family == "qwen2") {
      Add(Role::kQueryBias, layer, {queries}, state);
      Add(Role::kKeyBias, layer, {keys}, state);
      Add(Role::kValueBias, layer, {keys}, state);
    }
    if (options.family == "qwen3" || options.family == "gemma3") {
      Add(Role::kQueryNorm, layer, {options.head_dim}, state);
      Add(Role::kKeyNorm, layer, {options.head_dim}, state);
    }
    if (options.family == "gemma3") {
      Add(Role::kPostAttentionNorm, layer, {hidden}, state);
      Add(Role::kPostFfnNorm, layer, {hidden}, state);
    }
  }
}

void TinyModel::Add(Role role, uint32_t layer, std::vector<uint64_t> shape, uint64_t& state) {
  TinyTensor tensor{role, layer, std::move(shape), {}};
  const bool vector = tensor.shape.size() == 1;
  // Matrices keep the size of what they multiply; norms are near one, biases near zero.
  const float scale = vector ? 0.25f : std::sqrt(3.0f / static_cast<float>(tensor.shape.back()));
  const float middle = vector && !NamesOf(role).bias ? 1.0f : 0.0f;
  size_t count = 1;
  for (const uint64_t extent : tensor.shape) count *= extent;
  tensor.values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const float value = middle + scale * Uniform(state);
    // Smaller than this, half precision would not hold every bf16 number.
    const float kept = std::fabs(value) < 0x1p-10f ? 0.0f : value;
    tensor.values.push_back(kernels::bf16::Round(kept).ToFloat());
  }
  tensors_.push_back(std::move(tensor));
}

const TinyTensor& TinyModel::Find(Role role, uint32_t layer) const {
  if (role == Role::kOutput && options_.tied) role = Role::kEmbedding;
  for (const TinyTensor& tensor : tensors_) {
    if (tensor.role == role && (!InLayer(role) || tensor.layer == layer)) return tensor;
  }
  FOLIO_CHECK(false);
  return tensors_.front();
}

GgufImage TinyModel::Gguf(StorageType type) const {
  GgufImage image;
  SetTinyMetadata(options_, image);
  for (const TinyTensor& tensor : tensors_) {
    const StorageType stored = tensor.shape.size() == 1 ? StorageType::kF32 : type;
    // Converters leave the rows of Qwen and Gemma as they are.
    const bool as_halves = options_.family.starts_with("qwen") || options_.family == "gemma3";
    const bool rotated = !as_halves && (tensor.role == Role::kQuery || tensor.role == Role::kKey);
    const std::vector<float> values =
        rotated ? Interleave(tensor, options_.head_dim) : tensor.values;
    image.tensors.push_back({Name(tensor, options_.family, true),
                             {tensor.shape.rbegin(), tensor.shape.rend()},
                             GgmlCode(stored),
                             Encode(stored, values)});
  }
  if (options_.rope_scaling) {
    const std::vector<float> divisors =
        RopeDivisors(*options_.rope_scaling, options_.rope_theta, options_.head_dim);
    image.tensors.push_back(
        {"rope_freqs.weight", {divisors.size()}, 0, Encode(StorageType::kF32, divisors)});
  }
  return image;
}

HfImage TinyModel::Hf(StorageType type) const {
  HfImage image;
  image.config = TinyHfConfig(options_);
  image.tokenizer = TinyTokenizerJson();
  image.tokenizer_config = {{"add_bos_token", false},
                            {"bos_token", "<|im_start|>"},
                            {"eos_token", "<|im_end|>"},
                            {"chat_template", TinyChatTemplate()}};
  image.generation_config = {{"eos_token_id", kTinyImEnd}};
  for (const TinyTensor& tensor : tensors_) {
    std::vector<float> values = tensor.values;
    // Norms of Gemma are stored less one.
    if (options_.family == "gemma3" && tensor.shape.size() == 1) {
      for (float& value : values) value -= 1;
    }
    image.tensors.push_back(
        {Name(tensor, options_.family, false), HfDtype(type), tensor.shape, Encode(type, values)});
  }
  return image;
}

void TinyModel::WriteGguf(const std::string& path, StorageType type) const {
  WriteFile(path, Gguf(type).Serialize());
}

void TinyModel::WriteHf(const std::string& directory, StorageType type) const {
  Hf(type).Write(directory);
}

std::vector<float> RopeDivisors(const model::RopeScaling& scaling, float theta, uint32_t head_dim) {
  std::vector<float> divisors;
  const double context = scaling.original_context;
  for (uint32_t i = 0; i < head_dim / 2; ++i) {
    const double frequency = std::pow(double{theta}, -2.0 * i / head_dim);
    const double turns = context * frequency / (2 * std::numbers::pi);
    double divisor = scaling.factor;
    if (turns > scaling.high_freq_factor) {
      divisor = 1;
    } else if (turns >= scaling.low_freq_factor) {
      const double smooth =
          (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
      divisor = 1 / ((1 - smooth) / scaling.factor + smooth);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

}  // namespace folio::testing
