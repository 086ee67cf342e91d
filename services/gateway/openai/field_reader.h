// FieldReader reads the known fields of one JSON object of a request. Fields that it is not asked
// for are ignored, as OpenAI's clients send many. A field of a wrong type is an error that names
// it.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_FIELD_READER_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_FIELD_READER_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/openai/json_map.h"

namespace folio::gateway {

// Look-ups remember the first error, so that many fields are read in one go. A field that is null
// counts as missing. Thread-compatible.
class FieldReader {
 public:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  // `object` is borrowed, and must be an object. `prefix`, such as "messages[0].", is put before
  // the names in errors.
  explicit FieldReader(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // Null if it is missing.
  const Json* Find(const char* name) const;

  // Nothing if it is missing or wrong. Both limits are allowed values. An integer may be written as
  // a number without a fraction, such as 5.0.
  std::optional<double> Number(const char* name, double least, double most);
  std::optional<int64_t> Integer(const char* name, int64_t least, int64_t most);
  std::optional<bool> Bool(const char* name);
  std::optional<std::string> String(const char* name);
  // A list of integers from 0 to 2^32 - 1. Empty if it is missing.
  std::vector<uint32_t> Tokens(const char* name);
  // Those of a list that is at `at` in the request.
  std::vector<uint32_t> TokensOf(const Json& list, absl::string_view at);
  // Null if it is missing or not an object.
  const Json* Object(const char* name);

  // Refuses the field if it asks for something: it is neither missing nor false, 0 or empty.
  void Refuse(const char* name, absl::string_view why);
  void Fail(absl::string_view name, absl::string_view message);
  void Fail(const absl::Status& status);

  const absl::Status& status() const { return status_; }

 private:
  const Json& object_;
  const std::string prefix_;
  absl::Status status_;
};

// The integer that a value is, if it is one. Nothing also if 64 bits do not hold it.
std::optional<int64_t> IntegerOf(const Json& value);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_FIELD_READER_H_
