#include "services/model/source/json_fields.h"

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/source/mapped_file.h"

namespace folio::model {
namespace {

using nlohmann::json;

std::optional<uint32_t> Natural(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto natural = value.get<uint64_t>();
  if (natural > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(natural);
}

// Leaves the parser, which has no other way to stop early.
struct TooDeep : std::length_error {
  TooDeep() : std::length_error("too deep") {}
};

constexpr absl::string_view kNotNatural = "not an integer from 0 to 4294967295";

}  // namespace

absl::StatusOr<json> ParseJsonObject(absl::string_view text, const std::string& where) {
  std::set<std::string> keys;
  std::string twice;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= kMaxJsonDepth) throw TooDeep();
    if (depth == 1 && event == json::parse_event_t::key) {
      std::string key = parsed.get<std::string>();
      if (!keys.insert(key).second) twice = std::move(key);
    }
    return true;
  };
  json object;
  try {
    object = json::parse(text.begin(), text.end(), watch);
  } catch (const TooDeep&) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": JSON nested deeper than ",
                                                   kMaxJsonDepth, " levels, which no model needs"));
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat(where, ": bad JSON: ", error.what()));
  }
  if (!object.is_object()) return absl::DataLossError(absl::StrCat(where, ": not a JSON object"));
  if (!twice.empty()) {
    return absl::DataLossError(absl::StrCat(where, ": ", twice, ": appears twice"));
  }
  return object;
}

absl::StatusOr<json> ReadJsonObject(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return ParseJsonObject((*file)->text(), path);
}

absl::Status Unsupported(const std::string& where, absl::string_view field, const json& value,
                         absl::string_view known) {
  return absl::UnimplementedError(absl::StrCat(
      where, ": ", field, ": ", value.dump(-1, ' ', false, json::error_handler_t::replace),
      " is not supported (", known, ")"));
}

const json* JsonFields::Find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::Fail(const char* key, absl::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", key, ": ", what));
}

uint32_t JsonFields::Uint(const char* key, std::optional<uint32_t> fallback) {
  const json* value = Find(key);
  if (value == nullptr) {
    if (!fallback) Fail(key, "missing");
    return fallback.value_or(0);
  }
  const std::optional<uint32_t> natural = Natural(*value);
  if (!natural) Fail(key, kNotNatural);
  return natural.value_or(0);
}

float JsonFields::Float(const char* key, std::optional<float> fallback) {
  const json* value = Find(key);
  if (value == nullptr) {
    if (!fallback) Fail(key, "missing");
    return fallback.value_or(0);
  }
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
    Fail(key, "not a finite number");
    return fallback.value_or(0);
  }
  return static_cast<float>(number);
}

bool JsonFields::Bool(const char* key, bool fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    Fail(key, "not true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string JsonFields::String(const char* key, const std::string& fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    Fail(key, "not a string");
    return fallback;
  }
  return value->get<std::string>();
}

std::vector<float> JsonFields::Floats(const char* key) {
  const json* value = Find(key);
  std::vector<float> numbers;
  if (value == nullptr) {
    Fail(key, "missing");
  } else if (!value->is_array()) {
    Fail(key, "not a list of numbers");
  } else {
    for (const json& each : *value) {
      const double number = each.is_number() ? each.get<double>() : std::nan("");
      if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
        Fail(key, "has an entry that is not a finite number");
        return {};
      }
      numbers.push_back(static_cast<float>(number));
    }
  }
  return numbers;
}

std::vector<uint32_t> JsonFields::UintOrList(const char* key) {
  std::vector<uint32_t> list;
  const json* value = Find(key);
  if (value == nullptr) return list;
  const json one = json::array({*value});
  for (const json& each : value->is_array() ? *value : one) {
    const std::optional<uint32_t> natural = Natural(each);
    if (!natural) {
      Fail(key, kNotNatural);
      return {};
    }
    list.push_back(*natural);
  }
  return list;
}

}  // namespace folio::model
