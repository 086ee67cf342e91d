#include "services/runtime/refusal_text.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio {
namespace {

constexpr int kLastCode = static_cast<int>(absl::StatusCode::kUnauthenticated);

}  // namespace

std::string RefusalText(const absl::Status& why) {
  FOLIO_CHECK(!why.ok());
  std::string text = absl::StrCat(static_cast<int>(why.code()), " ", why.message());
  if (text.size() > kMaxRefusalBytes) text.resize(kMaxRefusalBytes);
  return text;
}

std::optional<absl::Status> ParseRefusal(absl::string_view text) {
  const size_t space = text.find(' ');
  int code = 0;
  if (space == absl::string_view::npos || !absl::SimpleAtoi(text.substr(0, space), &code) ||
      code <= 0 || code > kLastCode) {
    return std::nullopt;
  }
  return absl::Status(static_cast<absl::StatusCode>(code), text.substr(space + 1));
}

}  // namespace folio
