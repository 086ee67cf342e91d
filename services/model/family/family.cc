#include "services/model/family/family.h"

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::model {
namespace {

constexpr SizeKey kCommonSizeKeys[] = {
    {&ModelConfig::num_layers, "block_count", "num_hidden_layers"},
    {&ModelConfig::context, "context_length", "max_position_embeddings"},
    {&ModelConfig::hidden, "embedding_length", "hidden_size"},
    {&ModelConfig::ffn, "feed_forward_length", "intermediate_size"},
    {&ModelConfig::heads, "attention.head_count", "num_attention_heads"},
};

}  // namespace

absl::Span<const SizeKey> CommonSizeKeys() { return kCommonSizeKeys; }

const Family* FindFamily(absl::string_view name) {
  for (const Family* family : Families()) {
    if (family->name == name) return family;
  }
  return nullptr;
}

std::string KnownArchitectures(Format format) {
  std::string known;
  for (const Family* family : Families()) {
    const char* name =
        format == Format::kGguf ? family->gguf_architecture : family->hf_architecture;
    if (name != nullptr) absl::StrAppend(&known, known.empty() ? "" : ", ", name);
  }
  return known;
}

absl::string_view LayerPrefix(Format format) {
  return format == Format::kGguf ? "blk." : "model.layers.";
}

std::string TensorName(const TensorSpec& spec, Format format, uint32_t layer) {
  const char* name = format == Format::kGguf ? spec.gguf : spec.hf;
  if (!InfoOf(spec.role).in_layer) return name;
  return absl::StrCat(LayerPrefix(format), layer, ".", name);
}

uint64_t CountParameters(const ModelConfig& config) {
  const Family* family = FindFamily(config.architecture);
  FOLIO_CHECK(family != nullptr);
  uint64_t count = 0;
  for (const TensorSpec& spec : family->tensors) {
    if (spec.role == Role::kOutput && config.tied_embeddings) continue;
    const RoleInfo& info = InfoOf(spec.role);
    const uint64_t size = uint64_t{SizeOf(info.rows, config)} * SizeOf(info.cols, config);
    count += size * (info.in_layer ? config.num_layers : 1);
  }
  return count;
}

}  // namespace folio::model
