// A Llama model in a Hugging Face directory: its tensors, in one safetensors file or in shards.
#include <filesystem>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/model/hf_files.h"
#include "services/model/json_fields.h"
#include "services/model/model_parts.h"
#include "services/model/safetensors_file.h"

namespace folio::model {
namespace {

using nlohmann::json;

std::string HfName(Role role, uint32_t layer) {
  const auto in_layer = [layer](absl::string_view part) {
    return absl::StrCat("model.layers.", layer, ".", part, ".weight");
  };
  switch (role) {
    case Role::kEmbedding:
      return "model.embed_tokens.weight";
    case Role::kOutput:
      return "lm_head.weight";
    case Role::kFinalNorm:
      return "model.norm.weight";
    case Role::kAttentionNorm:
      return in_layer("input_layernorm");
    case Role::kFfnNorm:
      return in_layer("post_attention_layernorm");
    case Role::kQuery:
      return in_layer("self_attn.q_proj");
    case Role::kKey:
      return in_layer("self_attn.k_proj");
    case Role::kValue:
      return in_layer("self_attn.v_proj");
    case Role::kAttentionOut:
      return in_layer("self_attn.o_proj");
    case Role::kGate:
      return in_layer("mlp.gate_proj");
    case Role::kUp:
      return in_layer("mlp.up_proj");
    case Role::kDown:
      return in_layer("mlp.down_proj");
  }
  return "";
}

absl::Status ReadTensorFile(const std::string& path, ModelParts& parts) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<StoredTensor>> tensors = ParseSafetensors(**file);
  if (!tensors.ok()) return tensors.status();
  for (StoredTensor& tensor : *tensors) parts.tensors.push_back(std::move(tensor));
  parts.files.push_back(*std::move(file));
  return absl::OkStatus();
}

// Name of the shard by name of the tensor, as the index says.
absl::StatusOr<absl::flat_hash_map<std::string, std::string>> ReadIndex(const std::string& path) {
  const absl::StatusOr<json> index = ReadJsonObject(path);
  if (!index.ok()) return index.status();
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map: missing"));
  }
  absl::flat_hash_map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    // A file beside the index, nowhere else.
    if (!shard.is_string() || shard == "" || shard == "." || shard == ".." ||
        absl::StrContains(shard.get_ref<const std::string&>(), "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weight_map: ", tensor, ": not the name of a file"));
    }
    shards.emplace(tensor, shard.get<std::string>());
  }
  return shards;
}

absl::Status ReadShards(const std::string& directory, const std::string& index_path,
                        ModelParts& parts) {
  const auto index = ReadIndex(index_path);
  if (!index.ok()) return index.status();
  absl::flat_hash_set<std::string> read;
  for (const auto& [tensor, shard] : *index) {
    if (!read.insert(shard).second) continue;
    absl::Status status = ReadTensorFile(absl::StrCat(directory, "/", shard), parts);
    if (!status.ok()) return status;
  }
  absl::flat_hash_map<std::string, std::string> found;
  for (const StoredTensor& tensor : parts.tensors) {
    if (!found.emplace(tensor.name, tensor.file).second) {
      return absl::DataLossError(
          absl::StrCat(tensor.file, ": tensor ", tensor.name, ": is in another shard too"));
    }
  }
  for (const auto& [tensor, shard] : *index) {
    const auto place = found.find(tensor);
    if (place == found.end() || place->second != absl::StrCat(directory, "/", shard)) {
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": weight_map: ", tensor, ": missing in ", shard));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelParts> ReadHfModel(const std::string& directory) {
  ModelParts parts;
  parts.origin = directory;
  absl::StatusOr<ModelConfig> config = ReadHfConfig(directory);
  if (!config.ok()) return config.status();
  parts.config = *std::move(config);
  absl::StatusOr<TokenizerSpec> tokenizer = ReadHfTokenizer(directory, parts.config.vocab);
  if (!tokenizer.ok()) return tokenizer.status();
  parts.tokenizer = *std::move(tokenizer);

  const std::string single = directory + "/model.safetensors";
  const std::string index = directory + "/model.safetensors.index.json";
  absl::Status status = ReadTensorFile(single, parts);
  if (absl::IsNotFound(status)) {
    std::error_code ignored;
    if (!std::filesystem::exists(index, ignored)) {
      return absl::NotFoundError(
          absl::StrCat(directory, ": neither model.safetensors nor model.safetensors.index.json"));
    }
    status = ReadShards(directory, index, parts);
  }
  if (!status.ok()) return status;
  parts.names = {HfName, "model.layers.", {".self_attn.rotary_emb.inv_freq"}};
  return parts;
}

}  // namespace folio::model
