// JsonFields reads values of known types from one JSON object of a configuration file. As in
// GgufFields, look-ups remember the first error, so that a list of fields is read in one go. A
// field that is null counts as missing. One thread uses it.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_JSON_FIELDS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace folio::model {

// The deepest nesting of objects and lists that is read. Files of models need less than ten levels,
// and code that walks a value calls itself for each, so that a deeper one could use up its stack.
inline constexpr int kMaxJsonDepth = 64;

// A JSON object that names no key twice at its outer level. DATA_LOSS for other text and
// INVALID_ARGUMENT for one nested deeper than kMaxJsonDepth begin with `where`.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, const std::string& where);

// Reads and parses a file. NOT_FOUND when there is none.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

// UNIMPLEMENTED names the field, its value, and what is `known` instead.
absl::Status Unsupported(const std::string& where, absl::string_view field,
                         const nlohmann::json& value, absl::string_view known);

class JsonFields {
 public:
  // Both live longer than this. `where` is put in front of every message.
  JsonFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  // Null when missing.
  const nlohmann::json* Find(const char* key) const;

  // A field without fallback must be there.
  uint32_t Uint(const char* key, std::optional<uint32_t> fallback = std::nullopt);
  float Float(const char* key, std::optional<float> fallback = std::nullopt);
  bool Bool(const char* key, bool fallback);
  std::string String(const char* key, const std::string& fallback);
  // A list of numbers, which must be there.
  std::vector<float> Floats(const char* key);
  // One integer or a list of them; empty when missing.
  std::vector<uint32_t> UintOrList(const char* key);

  void Fail(const char* key, absl::string_view what);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
  absl::Status status_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_JSON_FIELDS_H_
