#include "tests/testing/hf_image.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/base/check.h"
#include "tests/testing/scratch_directory.h"

namespace folio::testing {

using nlohmann::json;

json SafetensorsHeader(const std::vector<HfTensor>& tensors) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t offset = 0;
  for (const HfTensor& tensor : tensors) {
    const size_t end = offset + tensor.bytes.size();
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header;
}

std::string Safetensors(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data;
}

std::string SerializeSafetensors(const std::vector<HfTensor>& tensors) {
  std::string data;
  for (const HfTensor& tensor : tensors) data += tensor.bytes;
  std::string header = SafetensorsHeader(tensors).dump();
  header.append((8 - header.size() % 8) % 8, ' ');
  return Safetensors(header, data);
}

HfTensor& HfImage::Tensor(const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&name](const HfTensor& each) { return each.name == name; });
  FOLIO_CHECK(found != tensors.end());
  return *found;
}

void HfImage::EraseTensor(const std::string& name) {
  FOLIO_CHECK(std::erase_if(tensors, [&name](const HfTensor& each) { return each.name == name; }) ==
              1);
}

std::map<std::string, std::string> HfImage::Files() const {
  std::map<std::string, std::string> files = {
      {"config.json", config.dump(1)},
      {"tokenizer.json", tokenizer.dump(1)},
      {"tokenizer_config.json", tokenizer_config.dump(1)},
      {"generation_config.json", generation_config.dump(1)},
  };
  if (shards == 1) {
    files["model.safetensors"] = SerializeSafetensors(tensors);
    return files;
  }
  std::vector<std::vector<HfTensor>> parts(static_cast<size_t>(shards));
  json weight_map = json::object();
  const auto name = [this](size_t part) {
    return absl::StrFormat("model-%05d-of-%05d.safetensors", part + 1, shards);
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t part = i % parts.size();
    parts[part].push_back(tensors[i]);
    weight_map[tensors[i].name] = name(part);
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    files[name(part)] = SerializeSafetensors(parts[part]);
  }
  files["model.safetensors.index.json"] = json{{"weight_map", weight_map}}.dump(1);
  return files;
}

void HfImage::Write(const std::string& directory) const {
  for (const auto& [name, contents] : Files())
    WriteFile(absl::StrCat(directory, "/", name), contents);
}

}  // namespace folio::testing
