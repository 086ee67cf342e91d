#include "tests/testing/gguf_image.h"

#include <algorithm>
#include <utility>

#include "services/base/check.h"

namespace folio::testing {
namespace {

using model::GgufType;

template <typename T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string RawString(const std::string& text) { return Raw<uint64_t>(text.size()) + text; }

std::string RawArray(GgufType type, uint64_t count) {
  return Raw(static_cast<uint32_t>(type)) + Raw(count);
}

void Pad(uint64_t alignment, std::string& out) {
  out.append((alignment - out.size() % alignment) % alignment, '\0');
}

}  // namespace

void GgufImage::SetRaw(const std::string& key, GgufType type, std::string bytes) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&key](const GgufField& field) { return field.key == key; });
  GgufField& field = found == fields.end() ? fields.emplace_back() : *found;
  field = {key, static_cast<uint32_t>(type), std::move(bytes)};
}

void GgufImage::SetUint(const std::string& key, uint32_t value) {
  SetRaw(key, GgufType::kUint32, Raw(value));
}

void GgufImage::SetFloat(const std::string& key, float value) {
  SetRaw(key, GgufType::kFloat32, Raw(value));
}

void GgufImage::SetBool(const std::string& key, bool value) {
  SetRaw(key, GgufType::kBool, Raw<uint8_t>(value ? 1 : 0));
}

void GgufImage::SetString(const std::string& key, const std::string& value) {
  SetRaw(key, GgufType::kString, RawString(value));
}

void GgufImage::SetStrings(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes = RawArray(GgufType::kString, values.size());
  for (const std::string& value : values) bytes += RawString(value);
  SetRaw(key, GgufType::kArray, std::move(bytes));
}

void GgufImage::SetInts(const std::string& key, const std::vector<int32_t>& values) {
  std::string bytes = RawArray(GgufType::kInt32, values.size());
  for (const int32_t value : values) bytes += Raw(value);
  SetRaw(key, GgufType::kArray, std::move(bytes));
}

void GgufImage::Erase(const std::string& key) {
  FOLIO_CHECK(std::erase_if(fields, [&key](const GgufField& field) { return field.key == key; }) ==
              1);
}

GgufTensor& GgufImage::Tensor(const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&name](const GgufTensor& each) { return each.name == name; });
  FOLIO_CHECK(found != tensors.end());
  return *found;
}

void GgufImage::EraseTensor(const std::string& name) {
  FOLIO_CHECK(
      std::erase_if(tensors, [&name](const GgufTensor& each) { return each.name == name; }) == 1);
}

std::string GgufImage::Serialize() const {
  std::string out = Raw(magic) + Raw(version) + Raw(tensor_count.value_or(tensors.size())) +
                    Raw(field_count.value_or(fields.size()));
  for (const GgufField& field : fields) {
    out += RawString(field.key) + Raw(field.type) + field.bytes;
  }
  std::string data;
  for (const GgufTensor& tensor : tensors) {
    Pad(alignment, data);
    out += RawString(tensor.name) + Raw(static_cast<uint32_t>(tensor.extents.size()));
    for (const uint64_t extent : tensor.extents) out += Raw(extent);
    out += Raw(tensor.type) + Raw<uint64_t>(tensor.offset.value_or(data.size()));
    data += tensor.bytes;
  }
  Pad(alignment, out);
  return out + data;
}

}  // namespace folio::testing
