#include "services/model/source/gguf_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::model {
namespace {

// The value as a non-negative integer, if it is one.
std::optional<uint64_t> Natural(const GgufValue& value) {
  if (const auto* natural = std::get_if<uint64_t>(&value)) return *natural;
  const auto* integer = std::get_if<int64_t>(&value);
  if (integer != nullptr && *integer >= 0) return static_cast<uint64_t>(*integer);
  return std::nullopt;
}

}  // namespace

void GgufFields::Fail(absl::string_view key, absl::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(file_.path(), ": ", key, ": ", what));
}

uint32_t GgufFields::Uint(absl::string_view key, std::optional<uint32_t> fallback) {
  const std::optional<uint32_t> value = MaybeUint(key);
  if (!value && !fallback && status_.ok()) Fail(key, "missing");
  return value.value_or(fallback.value_or(0));
}

std::optional<uint32_t> GgufFields::MaybeUint(absl::string_view key) {
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<uint64_t> natural = Natural(*value);
  if (!natural || *natural > std::numeric_limits<uint32_t>::max()) {
    Fail(key, "not an integer from 0 to 4294967295");
    return std::nullopt;
  }
  return static_cast<uint32_t>(*natural);
}

float GgufFields::Float(absl::string_view key, std::optional<float> fallback) {
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) {
    if (!fallback) Fail(key, "missing");
    return fallback.value_or(0);
  }
  const auto* number = std::get_if<double>(value);
  if (number == nullptr || !std::isfinite(*number) ||
      std::fabs(*number) > std::numeric_limits<float>::max()) {
    Fail(key, "not a finite number");
    return fallback.value_or(0);
  }
  return static_cast<float>(*number);
}

std::string GgufFields::String(absl::string_view key, const std::optional<std::string>& fallback) {
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) {
    if (!fallback) Fail(key, "missing");
    return fallback.value_or("");
  }
  const auto* text = std::get_if<absl::string_view>(value);
  if (text == nullptr) {
    Fail(key, "not a string");
    return "";
  }
  return std::string(*text);
}

std::optional<bool> GgufFields::MaybeBool(absl::string_view key) {
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) {
    Fail(key, "not a boolean");
    return std::nullopt;
  }
  return *flag;
}

std::vector<std::string> GgufFields::Strings(absl::string_view key) {
  std::vector<std::string> strings;
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) return strings;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->type != GgufType::kString) {
    Fail(key, "not an array of strings");
    return strings;
  }
  strings.reserve(array->count);  // the reader has walked it: the file holds that many
  GgufCursor cursor(array->bytes);
  for (uint64_t i = 0; i < array->count; ++i) strings.emplace_back(cursor.ReadString());
  return strings;
}

std::vector<bool> GgufFields::Bools(absl::string_view key) {
  std::vector<bool> flags;
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) return flags;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->type != GgufType::kBool) {
    Fail(key, "not an array of booleans");
    return flags;
  }
  for (const std::byte flag : array->bytes) flags.push_back(flag != std::byte{0});
  return flags;
}

std::vector<int32_t> GgufFields::Ints(absl::string_view key) {
  std::vector<int32_t> ints;
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) return ints;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || (array->type != GgufType::kInt32 && array->type != GgufType::kUint32)) {
    Fail(key, "not an array of 32-bit integers");
    return ints;
  }
  ints.resize(array->count);
  if (!ints.empty()) std::memcpy(ints.data(), array->bytes.data(), array->bytes.size());
  return ints;
}

std::vector<float> GgufFields::Floats(absl::string_view key) {
  std::vector<float> floats;
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) return floats;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->type != GgufType::kFloat32) {
    Fail(key, "not an array of 32-bit floats");
    return floats;
  }
  floats.resize(array->count);
  if (!floats.empty()) std::memcpy(floats.data(), array->bytes.data(), array->bytes.size());
  return floats;
}

std::string GgufFields::Bytes(absl::string_view key) {
  const GgufValue* value = file_.Find(key);
  if (value == nullptr) return "";
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || (array->type != GgufType::kInt8 && array->type != GgufType::kUint8)) {
    Fail(key, "not an array of 8-bit integers");
    return "";
  }
  return {reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size()};
}

}  // namespace folio::model
