#include "services/runtime/byte_size.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace folio {
namespace {

// Bytes of a unit, or 0 if it is unknown.
uint64_t UnitBytes(absl::string_view unit) {
  const std::string lower = absl::AsciiStrToLower(unit);
  if (lower.empty() || lower == "b") return 1;
  const size_t power = std::string("kmgt").find(lower[0]);
  if (power == std::string::npos) return 0;
  const absl::string_view rest = absl::string_view(lower).substr(1);
  if (rest != "" && rest != "b" && rest != "ib") return 0;
  uint64_t bytes = 1;
  for (size_t i = 0; i <= power; ++i) bytes *= rest == "b" ? 1000 : 1024;
  return bytes;
}

}  // namespace

absl::StatusOr<ByteSize> ParseByteSize(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const size_t digits = std::min(trimmed.find_first_not_of("0123456789."), trimmed.size());
  const absl::string_view number = trimmed.substr(0, digits);
  const uint64_t unit = UnitBytes(absl::StripLeadingAsciiWhitespace(trimmed.substr(digits)));
  absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("\"", text,
                   "\" is not a size; write bytes or a number with KiB, MiB, GiB or TiB, "
                   "such as 2GiB"));
  if (number.empty() || unit == 0) return wrong;
  uint64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    if (whole > UINT64_MAX / unit) return wrong;
    return ByteSize{whole * unit};
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || value * static_cast<double>(unit) > 9e18) return wrong;
  return ByteSize{static_cast<uint64_t>(std::floor(value * static_cast<double>(unit)))};
}

std::string FormatByteSize(ByteSize size) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  uint64_t value = size.bytes;
  int unit = 0;
  while (unit < 4 && value != 0 && value % 1024 == 0) {
    value /= 1024;
    ++unit;
  }
  return absl::StrCat(value, kUnits[unit]);
}

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  auto parsed = ParseByteSize(text);
  if (!parsed.ok()) {
    *error = std::string(parsed.status().message());
    return false;
  }
  *size = *parsed;
  return true;
}

std::string AbslUnparseFlag(ByteSize size) { return FormatByteSize(size); }

}  // namespace folio
