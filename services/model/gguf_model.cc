// A Llama model in a GGUF file: llama.* metadata, ggml's tensor names, the vocabulary.
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/gguf_fields.h"
#include "services/model/gguf_tokenizer.h"
#include "services/model/model_parts.h"

namespace folio::model {
namespace {

std::string GgufName(Role role, uint32_t layer) {
  const auto in_layer = [layer](absl::string_view part) {
    return absl::StrCat("blk.", layer, ".", part, ".weight");
  };
  switch (role) {
    case Role::kEmbedding:
      return "token_embd.weight";
    case Role::kOutput:
      return "output.weight";
    case Role::kFinalNorm:
      return "output_norm.weight";
    case Role::kAttentionNorm:
      return in_layer("attn_norm");
    case Role::kFfnNorm:
      return in_layer("ffn_norm");
    case Role::kQuery:
      return in_layer("attn_q");
    case Role::kKey:
      return in_layer("attn_k");
    case Role::kValue:
      return in_layer("attn_v");
    case Role::kAttentionOut:
      return in_layer("attn_output");
    case Role::kGate:
      return in_layer("ffn_gate");
    case Role::kUp:
      return in_layer("ffn_up");
    case Role::kDown:
      return in_layer("ffn_down");
  }
  return "";
}

const StoredTensor* FindTensor(const GgufFile& gguf, absl::string_view name) {
  for (const StoredTensor& tensor : gguf.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Features a llama file can ask for that this code does not compute.
absl::Status RefuseUnsupported(const GgufFile& gguf, GgufFields& fields) {
  const auto refuse = [&gguf](absl::string_view key, const auto& value, absl::string_view known) {
    return absl::UnimplementedError(
        absl::StrCat(gguf.path(), ": ", key, ": ", value, " is not supported (", known, ")"));
  };
  const std::string architecture = fields.String("general.architecture");
  if (!fields.status().ok()) return fields.status();
  if (architecture != "llama") return refuse("general.architecture", architecture, "only llama");
  if (const uint32_t parts = fields.Uint("split.count", 0); parts > 1) {
    return refuse("split.count", parts, "a model in one file");
  }
  if (const uint32_t experts = fields.Uint("llama.expert_count", 0); experts > 0) {
    return refuse("llama.expert_count", experts, "no mixture of experts");
  }
  const std::string scaling = fields.String("llama.rope.scaling.type", "none");
  if (scaling != "none") return refuse("llama.rope.scaling.type", scaling, "only none");
  if (const float linear = fields.Float("llama.rope.scale_linear", 1); linear != 1) {
    return refuse("llama.rope.scale_linear", linear, "only 1");
  }
  return fields.status();
}

absl::Status ReadConfig(const GgufFile& gguf, GgufFields& fields, ModelConfig& config) {
  config.architecture = "llama";
  config.name = fields.String("general.name", "");
  if (config.name.empty()) {
    const size_t slash = gguf.path().rfind('/');
    config.name = gguf.path().substr(slash == std::string::npos ? 0 : slash + 1);
  }
  config.num_layers = fields.Uint("llama.block_count");
  config.context = fields.Uint("llama.context_length");
  config.hidden = fields.Uint("llama.embedding_length");
  config.ffn = fields.Uint("llama.feed_forward_length");
  config.heads = fields.Uint("llama.attention.head_count");
  config.kv_heads = fields.Uint("llama.attention.head_count_kv", config.heads);
  config.rope_theta = fields.Float("llama.rope.freq_base", 10000.0f);
  config.norm_eps = fields.Float("llama.attention.layer_norm_rms_epsilon");
  if (!fields.status().ok()) return fields.status();
  const auto wrong = [&gguf](auto... text) {
    return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": ", text...));
  };
  if (fields.Has("llama.attention.key_length")) {
    config.head_dim = fields.Uint("llama.attention.key_length");
  } else {
    if (config.heads == 0 || config.hidden % config.heads != 0) {
      return wrong("llama.attention.head_count: ", config.heads,
                   " does not divide llama.embedding_length ", config.hidden);
    }
    config.head_dim = config.hidden / config.heads;
  }
  const uint32_t value_length = fields.Uint("llama.attention.value_length", config.head_dim);
  const uint32_t rotated = fields.Uint("llama.rope.dimension_count", config.head_dim);
  if (!fields.status().ok()) return fields.status();
  if (value_length != config.head_dim) {
    return wrong("llama.attention.value_length: ", value_length, " differs from the keys' ",
                 config.head_dim);
  }
  if (rotated != config.head_dim) {
    return wrong("llama.rope.dimension_count: ", rotated, " differs from the head's ",
                 config.head_dim, " (partial rotation is not supported)");
  }
  return absl::OkStatus();
}

absl::Status ReadRopeDivisors(const GgufFile& gguf, ModelConfig& config) {
  const StoredTensor* tensor = FindTensor(gguf, "rope_freqs.weight");
  if (tensor == nullptr) return absl::OkStatus();
  const std::string where = absl::StrCat(gguf.path(), ": tensor rope_freqs.weight: ");
  if (tensor->type != StorageType::kF32) {
    return absl::UnimplementedError(absl::StrCat(where, tensor->type_name, ", only F32 can be"));
  }
  if (tensor->shape != std::vector<uint64_t>{config.head_dim / 2}) {
    return absl::InvalidArgumentError(absl::StrCat(where, "shape ", ShapeText(tensor->shape),
                                                   ", expected [", config.head_dim / 2, "]"));
  }
  absl::StatusOr<std::vector<float>> divisors = ReadFloats(*tensor);
  if (!divisors.ok()) return divisors.status();
  for (const float divisor : *divisors) {
    if (divisor <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(where, "a divisor that is not positive"));
    }
  }
  config.rope_divisors = *std::move(divisors);
  return absl::OkStatus();
}

// The number of tokens, which is the number of rows the embedding must have.
absl::Status ReadVocabulary(const GgufFile& gguf, GgufFields& fields, ModelParts& parts) {
  GgufTokenizer raw;
  raw.model = fields.String("tokenizer.ggml.model");
  raw.pre = fields.String("tokenizer.ggml.pre", "");
  raw.tokens = fields.Strings("tokenizer.ggml.tokens");
  raw.merges = fields.Strings("tokenizer.ggml.merges");
  raw.token_types = fields.Ints("tokenizer.ggml.token_type");
  raw.bos_id = fields.MaybeUint("tokenizer.ggml.bos_token_id");
  raw.eos_id = fields.MaybeUint("tokenizer.ggml.eos_token_id");
  raw.eot_id = fields.MaybeUint("tokenizer.ggml.eot_token_id");
  raw.add_bos = fields.MaybeBool("tokenizer.ggml.add_bos_token");
  raw.chat_template = fields.String("tokenizer.chat_template", "");
  const uint32_t tokens = static_cast<uint32_t>(raw.tokens.size());
  parts.config.vocab = fields.Uint("llama.vocab_size", tokens);
  if (!fields.status().ok()) return fields.status();
  const StoredTensor* embedding = FindTensor(gguf, "token_embd.weight");
  if (embedding != nullptr && embedding->shape.size() == 2 && embedding->shape[0] != tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat(gguf.path(), ": tokenizer.ggml.tokens: a vocabulary of ", tokens,
                     " tokens, but token_embd.weight has ", embedding->shape[0], " rows"));
  }
  absl::StatusOr<TokenizerSpec> spec = TokenizerFromGguf(raw);
  if (!spec.ok()) {
    return absl::Status(spec.status().code(),
                        absl::StrCat(gguf.path(), ": ", spec.status().message()));
  }
  parts.tokenizer = *std::move(spec);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelParts> ReadGgufModel(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<GgufFile> gguf = GgufFile::Parse(*std::move(file));
  if (!gguf.ok()) return gguf.status();
  GgufFields fields(*gguf);
  if (absl::Status status = RefuseUnsupported(*gguf, fields); !status.ok()) return status;

  ModelParts parts;
  parts.origin = path;
  if (absl::Status status = ReadConfig(*gguf, fields, parts.config); !status.ok()) return status;
  if (absl::Status status = ReadVocabulary(*gguf, fields, parts); !status.ok()) return status;
  parts.config.tied_embeddings = FindTensor(*gguf, "output.weight") == nullptr;
  if (absl::Status status = CheckConfig(path, parts.config); !status.ok()) return status;
  if (absl::Status status = ReadRopeDivisors(*gguf, parts.config); !status.ok()) return status;
  parts.tensors = gguf->tensors();
  // Q and K are stored for a rotation of neighbouring pairs.
  parts.interleaved_rope = true;
  parts.names = {GgufName, "blk.", {"rope_freqs.weight", ".attn_rot_embd.weight"}};
  parts.files.push_back(gguf->file());
  return parts;
}

}  // namespace folio::model
