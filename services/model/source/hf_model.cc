// Reads a model of any family from a Hugging Face directory: its tensors lie in one safetensors
// file or in several, with an index.
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"
#include "services/model/source/packed_tensors.h"
#include "services/model/source/raw_model.h"
#include "services/model/source/safetensors_file.h"
#include "services/model/source/tensor_names.h"

namespace folio::model {
namespace {

using nlohmann::json;

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

absl::Status ReadTensorFile(const std::string& path, RawModel& parts) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<StoredTensor>> tensors = ParseSafetensors(**file);
  if (!tensors.ok()) return tensors.status();
  for (StoredTensor& tensor : *tensors) parts.tensors.push_back(std::move(tensor));
  parts.files.push_back(*std::move(file));
  return absl::OkStatus();
}

// Names of shards by names of tensors.
using WeightMap = std::map<std::string, std::string>;

absl::StatusOr<WeightMap> ReadIndex(const std::string& path) {
  const absl::StatusOr<json> index = ReadJsonObject(path);
  if (!index.ok()) return index.status();
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map: missing"));
  }
  WeightMap shards;
  for (const auto& [tensor, shard] : map->items()) {
    // A shard lies beside the index, so that an index cannot name files elsewhere.
    if (!shard.is_string() || shard == "" || shard == "." || shard == ".." ||
        absl::StrContains(shard.get_ref<const std::string&>(), "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weight_map: ", tensor, ": not the name of a file"));
    }
    shards.emplace(tensor, shard.get<std::string>());
  }
  return shards;
}

// Every tensor of the index is in the shard that the index names, and in no other.
absl::Status CheckPlaces(const std::string& index_path, const WeightMap& index,
                         const std::vector<StoredTensor>& tensors) {
  absl::flat_hash_map<std::string, std::string> found;  // files by names of tensors
  for (const StoredTensor& tensor : tensors) {
    const auto [place, is_first] = found.emplace(tensor.name, tensor.file);
    if (is_first) continue;
    return absl::DataLossError(absl::StrCat(tensor.file, ": tensor ", tensor.name,
                                            ": is in another shard too, ",
                                            FileName(place->second)));
  }
  for (const auto& [tensor, shard] : index) {
    const auto place = found.find(tensor);
    if (place != found.end() && FileName(place->second) == shard) continue;
    const std::string elsewhere =
        place == found.end() ? "" : absl::StrCat(", it is in ", FileName(place->second));
    return absl::InvalidArgumentError(
        absl::StrCat(index_path, ": weight_map: ", tensor, ": missing in ", shard, elsewhere));
  }
  return absl::OkStatus();
}

absl::Status ReadShards(const std::string& directory, const std::string& index_path,
                        RawModel& parts) {
  const absl::StatusOr<WeightMap> index = ReadIndex(index_path);
  if (!index.ok()) return index.status();
  absl::flat_hash_set<std::string> read;
  for (const auto& [tensor, shard] : *index) {
    if (!read.insert(shard).second) continue;
    absl::Status status = ReadTensorFile(absl::StrCat(directory, "/", shard), parts);
    if (absl::IsNotFound(status)) {
      return absl::NotFoundError(
          absl::StrCat(index_path, ": weight_map: ", tensor, ": ", shard,
                       " is not in the directory (download the model again)"));
    }
    if (!status.ok()) return status;
  }
  return CheckPlaces(index_path, *index, parts.tensors);
}

}  // namespace

absl::StatusOr<RawModel> ReadHfModel(const std::string& directory) {
  RawModel parts;
  parts.origin = directory;
  absl::StatusOr<HfConfig> config = ReadHfConfig(directory);
  if (!config.ok()) return config.status();
  parts.config = std::move(config->model);
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
  if (status.ok()) status = CombinePacked(config->quantization, parts.tensors);
  if (!status.ok()) return status;
  parts.family = FindFamily(parts.config.architecture);
  parts.format = Format::kHf;
  parts.prefixes = FindHfPrefixes(parts.tensors);
  parts.harmless = {".self_attn.rotary_emb.inv_freq"};
  return parts;
}

}  // namespace folio::model
