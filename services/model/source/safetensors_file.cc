#include "services/model/source/safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/source/json_fields.h"

namespace folio::model {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kMaxDimensions = 8;

struct TypeInfo {
  absl::string_view name;
  uint64_t bytes;
  StorageType type;
};

constexpr TypeInfo kTypes[] = {
    {"F32", 4, StorageType::kF32},       {"F16", 2, StorageType::kF16},
    {"BF16", 2, StorageType::kBF16},     {"F64", 8, StorageType::kOther},
    {"I64", 8, StorageType::kOther},     {"U64", 8, StorageType::kOther},
    {"I32", 4, StorageType::kOther},     {"U32", 4, StorageType::kOther},
    {"I16", 2, StorageType::kOther},     {"U16", 2, StorageType::kOther},
    {"I8", 1, StorageType::kOther},      {"U8", 1, StorageType::kOther},
    {"BOOL", 1, StorageType::kOther},    {"F8_E4M3", 1, StorageType::kE4M3},
    {"F8_E5M2", 1, StorageType::kOther},
};

struct PlacedTensor {
  StoredTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

bool IsNaturals(const json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const json& each) {
           return each.is_number_unsigned();
         });
}

absl::StatusOr<PlacedTensor> ReadEntry(const std::string& path, const std::string& name,
                                       const json& entry) {
  const auto damaged = [&](const auto&... text) {
    return absl::DataLossError(absl::StrCat(path, ": tensor ", name, ": ", text...));
  };
  if (!entry.is_object()) return damaged("its entry is not an object");
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return damaged("no dtype");
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !IsNaturals(*shape) || shape->size() > kMaxDimensions) {
    return damaged("no shape of at most ", kMaxDimensions, " natural numbers");
  }
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !IsNaturals(*offsets) || offsets->size() != 2) {
    return damaged("no data_offsets of two natural numbers");
  }
  PlacedTensor placed;
  StoredTensor& tensor = placed.tensor;
  tensor.file = path;
  tensor.name = name;
  tensor.type_name = dtype->get<std::string>();
  const auto* info = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeInfo& known) {
    return tensor.type_name == known.name;
  });
  if (info == std::end(kTypes)) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": tensor ", name, ": unknown type ", tensor.type_name));
  }
  tensor.type = info->type;
  tensor.shape = shape->get<std::vector<uint64_t>>();
  uint64_t bytes = info->bytes;
  for (const uint64_t extent : tensor.shape) {
    if (extent != 0 && bytes > std::numeric_limits<uint64_t>::max() / extent) {
      return damaged("shape ", ShapeText(tensor.shape), " is too large");
    }
    bytes *= extent;
  }
  placed.begin = offsets->at(0).get<uint64_t>();
  placed.end = offsets->at(1).get<uint64_t>();
  if (placed.begin > placed.end || placed.end - placed.begin != bytes) {
    return damaged("data_offsets [", placed.begin, ", ", placed.end, "] do not hold the ", bytes,
                   " bytes of shape ", ShapeText(tensor.shape), " in ", tensor.type_name);
  }
  return placed;
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(const MappedFile& file) {
  const std::string& path = file.path();
  const auto bytes = file.bytes();
  uint64_t header = 0;
  if (bytes.size() < sizeof header) {
    return absl::DataLossError(absl::StrCat(path, ": truncated in the header's length"));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header > kMaxHeader || header > bytes.size() - sizeof header) {
    return absl::DataLossError(absl::StrCat(path, ": a header of ", header,
                                            " bytes does not fit (truncated, or no safetensors)"));
  }
  const absl::StatusOr<json> directory =
      ParseJsonObject(file.text().substr(sizeof header, header), path + ": header");
  if (!directory.ok()) return directory.status();

  std::vector<PlacedTensor> placed;
  for (const auto& [name, entry] : directory->items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<PlacedTensor> tensor = ReadEntry(path, name, entry);
    if (!tensor.ok()) return tensor.status();
    placed.push_back(*std::move(tensor));
  }
  std::sort(placed.begin(), placed.end(), [](const PlacedTensor& a, const PlacedTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const auto data = bytes.subspan(sizeof header + header);
  std::vector<StoredTensor> tensors;
  uint64_t end = 0;
  for (PlacedTensor& each : placed) {
    const std::string where = absl::StrCat(path, ": tensor ", each.tensor.name, ": ");
    if (each.begin != end) {
      return absl::DataLossError(absl::StrCat(
          where, each.begin < end ? "overlaps" : "leaves a gap to", " the tensor before it"));
    }
    end = each.end;
    if (end > data.size()) {
      return absl::DataLossError(absl::StrCat(where, "ends at byte ", end, ", the file holds ",
                                              data.size(), " (truncated?)"));
    }
    each.tensor.bytes = data.subspan(each.begin, each.end - each.begin);
    tensors.push_back(std::move(each.tensor));
  }
  if (end != data.size()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", data.size() - end, " bytes after the last tensor"));
  }
  return tensors;
}

}  // namespace folio::model
