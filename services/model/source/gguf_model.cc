// Reads a model of any family from a GGUF file: its metadata, the vocabulary and what tensors there
// are. Keys of the family begin with the architecture's name ("llama.block_count").
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/source/gguf_fields.h"
#include "services/model/source/gguf_layers.h"
#include "services/model/source/gguf_parts.h"
#include "services/model/source/gguf_rope.h"
#include "services/model/source/raw_model.h"
#include "services/model/source/unserved_fields.h"
#include "services/model/tokenizer/gguf_tokenizer.h"

namespace folio::model {
namespace {

absl::StatusOr<const Family*> ReadFamily(const GgufFile& gguf, GgufFields& fields) {
  const std::string architecture = fields.String("general.architecture");
  if (!fields.status().ok()) return fields.status();
  for (const Family* family : Families()) {
    const char* name = family->gguf_architecture;
    if (name != nullptr && architecture == name) return family;
  }
  return absl::UnimplementedError(absl::StrCat(gguf.path(), ": general.architecture ", architecture,
                                               " is not supported (known are ",
                                               KnownArchitectures(Format::kGguf), ")"));
}

// head_dim, which older files leave to be derived, and what must go with it.
absl::Status ReadHeadDim(const GgufFile& gguf, const GgufKeys& key, GgufFields& fields,
                         ModelConfig& config) {
  const auto wrong = [&gguf](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": ", text...));
  };
  if (fields.Has(key("attention.key_length"))) {
    config.head_dim = fields.Uint(key("attention.key_length"));
  } else {
    if (config.heads == 0 || config.hidden % config.heads != 0) {
      return wrong(key("attention.head_count"), ": ", config.heads, " does not divide ",
                   key("embedding_length"), " ", config.hidden);
    }
    config.head_dim = config.hidden / config.heads;
  }
  const uint32_t value_length = fields.Uint(key("attention.value_length"), config.head_dim);
  if (!fields.status().ok()) return fields.status();
  if (value_length != config.head_dim) {
    return wrong(key("attention.value_length"), ": ", value_length, " differs from the keys' ",
                 config.head_dim);
  }
  return absl::OkStatus();
}

absl::Status ReadConfig(const GgufFile& gguf, const Family& family, const GgufKeys& key,
                        GgufFields& fields, ModelConfig& config) {
  config.architecture = family.name;
  config.features = family.features;
  config.name = fields.String("general.name", "");
  if (config.name.empty()) {
    const size_t slash = gguf.path().rfind('/');
    config.name = gguf.path().substr(slash == std::string::npos ? 0 : slash + 1);
  }
  for (const SizeKey& size : CommonSizeKeys()) config.*size.field = fields.Uint(key(size.gguf));
  config.kv_heads = fields.Uint(key("attention.head_count_kv"), config.heads);
  config.norm_eps = fields.Float(key("attention.layer_norm_rms_epsilon"));
  if (family.windowed) {
    LimitContext(gguf.path(), fields.Uint(key("attention.sliding_window"), 0), config);
  }
  if (!fields.status().ok()) return fields.status();
  return ReadHeadDim(gguf, key, fields, config);
}

// The number of tokens, which is the number of rows the embedding must have.
absl::Status ReadVocabulary(const GgufFile& gguf, const GgufKeys& key, GgufFields& fields,
                            RawModel& parts) {
  GgufTokenizer raw;
  raw.model = fields.String("tokenizer.ggml.model");
  raw.pre = fields.String("tokenizer.ggml.pre", "");
  raw.tokens = fields.Strings("tokenizer.ggml.tokens");
  raw.merges = fields.Strings("tokenizer.ggml.merges");
  if (raw.model != "gpt2") raw.scores = fields.Floats("tokenizer.ggml.scores");
  raw.token_types = fields.Ints("tokenizer.ggml.token_type");
  raw.bos_id = fields.MaybeUint("tokenizer.ggml.bos_token_id");
  raw.eos_id = fields.MaybeUint("tokenizer.ggml.eos_token_id");
  raw.eot_id = fields.MaybeUint("tokenizer.ggml.eot_token_id");
  raw.unknown_id = fields.MaybeUint("tokenizer.ggml.unknown_token_id");
  raw.add_bos = fields.MaybeBool("tokenizer.ggml.add_bos_token");
  raw.add_eos = fields.MaybeBool("tokenizer.ggml.add_eos_token");
  raw.add_space_prefix = fields.MaybeBool("tokenizer.ggml.add_space_prefix");
  raw.remove_extra_spaces = fields.MaybeBool("tokenizer.ggml.remove_extra_whitespaces");
  raw.charsmap = fields.Bytes("tokenizer.ggml.precompiled_charsmap");
  raw.chat_template = fields.String("tokenizer.chat_template", "");
  const uint32_t tokens = static_cast<uint32_t>(raw.tokens.size());
  parts.config.vocab = fields.Uint(key("vocab_size"), tokens);
  if (!fields.status().ok()) return fields.status();
  const StoredTensor* embedding = gguf.FindTensor("token_embd.weight");
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

absl::StatusOr<RawModel> ReadGgufModel(const std::string& path) {
  const absl::StatusOr<GgufFile> gguf = OpenGgufModel(path);
  if (!gguf.ok()) return gguf.status();
  GgufFields fields(*gguf);
  const absl::StatusOr<const Family*> family = ReadFamily(*gguf, fields);
  if (!family.ok()) return family.status();
  const GgufKeys key((*family)->gguf_architecture);

  RawModel parts;
  parts.origin = path;
  parts.family = *family;
  parts.format = Format::kGguf;
  absl::Status status = RefuseUnserved(*gguf, **family);
  if (status.ok()) status = ReadConfig(*gguf, **family, key, fields, parts.config);
  if (status.ok()) status = ReadVocabulary(*gguf, key, fields, parts);
  if (!status.ok()) return status;
  parts.config.tied_embeddings = gguf->FindTensor("output.weight") == nullptr;
  status = CheckConfig(path, parts.config);
  if (status.ok()) status = ReadGgufLayers(*gguf, **family, fields, parts.config);
  if (status.ok()) status = ReadGgufRope(*gguf, **family, fields, parts.config);
  if (!status.ok()) return status;
  parts.tensors = gguf->tensors();
  parts.harmless = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
                    ".attn_rot_embd.weight"};
  parts.files = gguf->files();
  return parts;
}

}  // namespace folio::model
