#include "services/manager/memory/pool_size.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/runtime/byte_size.h"

namespace folio::manager {

std::string FormatPoolSize(const PoolSize& size) {
  if (size.is_share() && size.share > 0) return absl::StrCat(size.share * 100, "%");
  return FormatByteSize({size.bytes});
}

bool AbslParseFlag(absl::string_view text, PoolSize* size, std::string* error) {
  absl::string_view number = absl::StripAsciiWhitespace(text);
  if (!absl::ConsumeSuffix(&number, "%")) {
    ByteSize bytes;
    if (!AbslParseFlag(text, &bytes, error)) return false;
    *size = {.bytes = bytes.bytes};
    return true;
  }
  double percent = 0;
  // Written so that NaN fails too.
  if (!absl::SimpleAtod(number, &percent) || !(percent > 0 && percent <= 100)) {
    *error =
        absl::StrCat("\"", text,
                     "\" is not a share of the free memory; write one above 0% and up to 100%, "
                     "such as 80%, or a size such as 2GiB");
    return false;
  }
  *size = {.share = percent / 100};
  return true;
}

std::string AbslUnparseFlag(const PoolSize& size) { return FormatPoolSize(size); }

}  // namespace folio::manager
