#include "services/model/source/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "services/model/source/gguf_tensor_types.h"

namespace folio::model {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1u << 16;
constexpr uint32_t kMaxDimensions = 4;

void SetType(uint32_t code, StoredTensor& tensor) {
  const GgufTensorType* known = FindTensorType(code);
  if (known != nullptr) tensor.type = known->type;
  tensor.type_name = known != nullptr ? std::string(known->name) : absl::StrCat("type ", code);
}

// The bytes that the tensor takes, or nothing when its shape is impossible.
std::optional<uint64_t> TensorBytes(const StoredTensor& tensor) {
  const uint64_t block = BlockValues(tensor.type);
  if (tensor.shape.back() % block != 0) return std::nullopt;
  uint64_t bytes = BlockBytes(tensor.type);
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const uint64_t extent =
        i + 1 == tensor.shape.size() ? tensor.shape[i] / block : tensor.shape[i];
    if (extent > std::numeric_limits<uint64_t>::max() / bytes) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

struct PlacedTensor {
  StoredTensor tensor;
  uint64_t offset = 0;  // in the data section
};

absl::StatusOr<PlacedTensor> ReadTensorInfo(GgufCursor& cursor, const std::string& path) {
  PlacedTensor placed;
  StoredTensor& tensor = placed.tensor;
  tensor.file = path;
  tensor.name = std::string(cursor.ReadString());
  const auto dimensions = cursor.Read<uint32_t>();
  if (!cursor.ok()) return absl::DataLossError(absl::StrCat(path, ": truncated in tensor names"));
  const std::string where = absl::StrCat(path, ": tensor ", tensor.name, ": ");
  if (dimensions == 0 || dimensions > kMaxDimensions) {
    return absl::DataLossError(
        absl::StrCat(where, dimensions, " dimensions, but GGUF tensors have 1 to 4"));
  }
  for (uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(cursor.Read<uint64_t>());
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  SetType(cursor.Read<uint32_t>(), tensor);
  placed.offset = cursor.Read<uint64_t>();
  if (!cursor.ok()) return absl::DataLossError(absl::StrCat(where, "truncated in its description"));
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end()) {
    return absl::DataLossError(absl::StrCat(where, "empty shape ", ShapeText(tensor.shape)));
  }
  return placed;
}

// Checks place and size of each tensor in the data section, and that tensors do not overlap.
absl::Status PlaceTensors(absl::Span<const std::byte> data, uint64_t alignment,
                          std::vector<PlacedTensor>& tensors) {
  std::vector<const PlacedTensor*> by_offset;
  for (PlacedTensor& placed : tensors) {
    StoredTensor& tensor = placed.tensor;
    const std::string where = absl::StrCat(tensor.file, ": tensor ", tensor.name, ": ");
    if (placed.offset % alignment != 0) {
      return absl::DataLossError(absl::StrCat(where, "offset ", placed.offset,
                                              " is not a multiple of the alignment ", alignment));
    }
    if (placed.offset > data.size()) {
      return absl::DataLossError(absl::StrCat(where, "offset ", placed.offset,
                                              " is beyond the end of the file (truncated?)"));
    }
    if (tensor.type == StorageType::kOther) continue;
    const std::optional<uint64_t> bytes = TensorBytes(tensor);
    if (!bytes) {
      return absl::DataLossError(absl::StrCat(where, "shape ", ShapeText(tensor.shape),
                                              " is not possible for ", tensor.type_name));
    }
    if (*bytes > data.size() - placed.offset) {
      return absl::DataLossError(absl::StrCat(where, "needs ", *bytes, " bytes, the file has ",
                                              data.size() - placed.offset,
                                              " from its offset on (truncated?)"));
    }
    tensor.bytes = data.subspan(placed.offset, *bytes);
    by_offset.push_back(&placed);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const PlacedTensor* a, const PlacedTensor* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const PlacedTensor& before = *by_offset[i - 1];
    if (before.offset + before.tensor.bytes.size() > by_offset[i]->offset) {
      return absl::DataLossError(absl::StrCat(before.tensor.file, ": tensor ",
                                              by_offset[i]->tensor.name, ": overlaps tensor ",
                                              before.tensor.name));
    }
  }
  return absl::OkStatus();
}

struct Header {
  uint64_t tensors = 0;
  uint64_t fields = 0;
};

absl::StatusOr<Header> ReadHeader(GgufCursor& cursor, const std::string& path) {
  const auto magic = cursor.Read<uint32_t>();
  if (!cursor.ok() || magic != kMagic) {
    return absl::DataLossError(absl::StrCat(path, ": not a GGUF file (wrong magic)"));
  }
  const auto version = cursor.Read<uint32_t>();
  Header header;
  header.tensors = cursor.Read<uint64_t>();
  header.fields = cursor.Read<uint64_t>();
  if (!cursor.ok()) return absl::DataLossError(absl::StrCat(path, ": truncated in the header"));
  if (version != 0 && (version & 0xffffu) == 0) {
    return absl::UnimplementedError(absl::StrCat(path, ": a big-endian GGUF file"));
  }
  if (version != 2 && version != 3) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": GGUF version ", version, ", versions 2 and 3 are supported"));
  }
  return header;
}

// The data section starts at the next multiple of this.
absl::StatusOr<uint64_t> Alignment(const GgufValue* value, const std::string& path) {
  if (value == nullptr) return uint64_t{kDefaultAlignment};
  const auto* alignment = std::get_if<uint64_t>(value);
  if (alignment == nullptr || *alignment < 8 || *alignment > kMaxAlignment ||
      !std::has_single_bit(*alignment)) {
    return absl::DataLossError(
        absl::StrCat(path, ": general.alignment: not a power of two from 8 to ", kMaxAlignment));
  }
  return *alignment;
}

using Metadata = absl::flat_hash_map<std::string, GgufValue>;

absl::StatusOr<Metadata> ReadMetadata(GgufCursor& cursor, uint64_t count, const std::string& path) {
  Metadata metadata;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key(cursor.ReadString());
    if (!cursor.ok()) return absl::DataLossError(absl::StrCat(path, ": truncated in the metadata"));
    absl::StatusOr<GgufValue> value = ReadGgufValue(cursor);
    if (!value.ok()) {
      return absl::Status(value.status().code(),
                          absl::StrCat(path, ": ", key, ": ", value.status().message()));
    }
    if (!cursor.ok()) {
      return absl::DataLossError(absl::StrCat(path, ": ", key, ": truncated in its value"));
    }
    if (!metadata.emplace(key, *std::move(value)).second) {
      return absl::DataLossError(absl::StrCat(path, ": ", key, ": appears twice"));
    }
  }
  return metadata;
}

absl::StatusOr<std::vector<PlacedTensor>> ReadDirectory(GgufCursor& cursor, uint64_t count,
                                                        const std::string& path) {
  std::vector<PlacedTensor> tensors;
  absl::flat_hash_set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    absl::StatusOr<PlacedTensor> placed = ReadTensorInfo(cursor, path);
    if (!placed.ok()) return placed.status();
    if (!names.insert(placed->tensor.name).second) {
      return absl::DataLossError(
          absl::StrCat(path, ": tensor ", placed->tensor.name, ": appears twice"));
    }
    tensors.push_back(*std::move(placed));
  }
  return tensors;
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::Parse(std::shared_ptr<const MappedFile> file) {
  const std::string& path = file->path();
  GgufCursor cursor(file->bytes());
  const absl::StatusOr<Header> header = ReadHeader(cursor, path);
  if (!header.ok()) return header.status();
  absl::StatusOr<Metadata> metadata = ReadMetadata(cursor, header->fields, path);
  if (!metadata.ok()) return metadata.status();
  absl::StatusOr<std::vector<PlacedTensor>> placed = ReadDirectory(cursor, header->tensors, path);
  if (!placed.ok()) return placed.status();

  GgufFile gguf;
  gguf.metadata_ = *std::move(metadata);
  const absl::StatusOr<uint64_t> alignment = Alignment(gguf.Find("general.alignment"), path);
  if (!alignment.ok()) return alignment.status();
  const uint64_t start = (cursor.position() + *alignment - 1) / *alignment * *alignment;
  if (start > file->bytes().size() && !placed->empty()) {
    return absl::DataLossError(absl::StrCat(path, ": truncated before the tensors"));
  }
  const auto data = placed->empty() ? absl::Span<const std::byte>() : file->bytes().subspan(start);
  if (absl::Status status = PlaceTensors(data, *alignment, *placed); !status.ok()) return status;
  for (PlacedTensor& each : *placed) gguf.tensors_.push_back(std::move(each.tensor));
  gguf.files_.push_back(std::move(file));
  return gguf;
}

absl::Status GgufFile::Append(GgufFile part) {
  absl::flat_hash_map<std::string, const StoredTensor*> here;
  for (const StoredTensor& tensor : tensors_) here.emplace(tensor.name, &tensor);
  for (const StoredTensor& tensor : part.tensors_) {
    const auto found = here.find(tensor.name);
    if (found == here.end()) continue;
    return absl::DataLossError(absl::StrCat(tensor.file, ": tensor ", tensor.name,
                                            ": is in another part too, ", found->second->file));
  }
  for (StoredTensor& tensor : part.tensors_) tensors_.push_back(std::move(tensor));
  for (auto& file : part.files_) files_.push_back(std::move(file));
  return absl::OkStatus();
}

const StoredTensor* GgufFile::FindTensor(absl::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const StoredTensor& each) { return each.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

const GgufValue* GgufFile::Find(absl::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

std::vector<std::string> GgufFile::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata_) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace folio::model
