// ByteSize is a size in bytes as people write it, such as "4096", "512MiB", "2GiB" or "1.5GB". It
// is an Abseil flag type.
#ifndef FOLIO_SERVICES_RUNTIME_BYTE_SIZE_H_
#define FOLIO_SERVICES_RUNTIME_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio {

struct ByteSize {
  uint64_t bytes = 0;
};

// The units are B, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB, GB, TB (powers of 1000). K, M, G
// and T mean KiB and so on. INVALID_ARGUMENT says which form is expected.
absl::StatusOr<ByteSize> ParseByteSize(absl::string_view text);
// Uses the largest power-of-1024 unit that divides the size, as in "2GiB", "12KiB" or "100B".
std::string FormatByteSize(ByteSize size);

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
std::string AbslUnparseFlag(ByteSize size);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_BYTE_SIZE_H_
