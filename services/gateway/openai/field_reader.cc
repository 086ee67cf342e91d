#include "services/gateway/openai/field_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/gateway/openai/api_error.h"

namespace folio::gateway {
namespace {

constexpr double kTwoTo63 = 9223372036854775808.0;

std::string RangeText(const std::string& least, const std::string& most, bool bounded) {
  return bounded ? absl::StrCat("from ", least, " to ", most) : absl::StrCat("of at least ", least);
}

}  // namespace

std::optional<int64_t> IntegerOf(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto natural = value.get<uint64_t>();
    if (natural > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(natural);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (std::trunc(number) != number || !(std::fabs(number) < kTwoTo63)) return std::nullopt;
  return static_cast<int64_t>(number);
}

const Json* FieldReader::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::Fail(absl::string_view name, absl::string_view message) {
  const std::string param = absl::StrCat(prefix_, name);
  Fail(FieldError(param, absl::StrCat("'", param, "' ", message)));
}

void FieldReader::Fail(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

std::optional<double> FieldReader::Number(const char* name, double least, double most) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (number >= least && number <= most && std::isfinite(number)) return number;
  Fail(name, absl::StrCat("must be a number ",
                          RangeText(absl::StrCat(least), absl::StrCat(most), std::isfinite(most))));
  return std::nullopt;
}

std::optional<int64_t> FieldReader::Integer(const char* name, int64_t least, int64_t most) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = IntegerOf(*value);
  if (number.has_value() && *number >= least && *number <= most) return number;
  Fail(name, absl::StrCat("must be an integer ",
                          RangeText(absl::StrCat(least), absl::StrCat(most), true)));
  return std::nullopt;
}

std::optional<bool> FieldReader::Bool(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "must be true or false");
  return std::nullopt;
}

std::optional<std::string> FieldReader::String(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, "must be a string");
  return std::nullopt;
}

std::vector<uint32_t> FieldReader::Tokens(const char* name) {
  std::vector<uint32_t> tokens;
  const Json* value = Find(name);
  if (value == nullptr) return tokens;
  if (!value->is_array()) {
    Fail(name, "must be a list of token ids");
    return tokens;
  }
  return TokensOf(*value, name);
}

std::vector<uint32_t> FieldReader::TokensOf(const Json& list, absl::string_view at) {
  std::vector<uint32_t> tokens;
  tokens.reserve(list.size());
  for (const Json& each : list) {
    const std::optional<int64_t> token = IntegerOf(each);
    if (!token.has_value() || *token < 0 || *token > std::numeric_limits<uint32_t>::max()) {
      Fail(absl::StrCat(at, "[", tokens.size(), "]"), "must be a token id");
      return {};
    }
    tokens.push_back(static_cast<uint32_t>(*token));
  }
  return tokens;
}

const Json* FieldReader::Object(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr || value->is_object()) return value;
  Fail(name, "must be an object");
  return nullptr;
}

void FieldReader::Refuse(const char* name, absl::string_view why) {
  const Json* value = Find(name);
  if (value == nullptr || *value == Json(false) || *value == Json(0)) return;
  if ((value->is_string() || value->is_array() || value->is_object()) &&
      (value->empty() || *value == Json(""))) {
    return;
  }
  Fail(name, why);
}

}  // namespace folio::gateway
