// Sizes in bytes as people write them: "4096", "512MiB", "2GiB", "1.5GB". As an Abseil flag type.
#ifndef FOLIO_SERVICES_COMMON_BYTE_SIZE_H_
#define FOLIO_SERVICES_COMMON_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio {

struct ByteSize {
  uint64_t bytes = 0;
};

// Units: B, KiB, MiB, GiB, TiB (powers of 1024); KB, MB, GB, TB (powers of 1000); K, M, G, T mean
// KiB and so on. INVALID_ARGUMENT says what is expected.
absl::StatusOr<ByteSize> ParseByteSize(absl::string_view text);
// The largest power-of-1024 unit that divides it: "2GiB", "12KiB", "100B".
std::string FormatByteSize(ByteSize size);

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
std::string AbslUnparseFlag(ByteSize size);

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_BYTE_SIZE_H_
