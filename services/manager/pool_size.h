// How much memory a pool takes: "2GiB", or a share of what is free, "80%". As an Abseil flag type.
#ifndef FOLIO_SERVICES_MANAGER_POOL_SIZE_H_
#define FOLIO_SERVICES_MANAGER_POOL_SIZE_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::manager {

struct PoolSize {
  uint64_t bytes = 0;  // of all ranks together; 0: `share` says it
  double share = 0;    // of what is free when the pool is carved, above 0 and at most 1

  bool is_share() const { return bytes == 0; }
};

// How many pages of `page_bytes` are in `bytes`; no more than ids can name.
inline uint64_t PagesIn(uint64_t bytes, uint64_t page_bytes) {
  return std::min<uint64_t>(bytes / page_bytes, UINT32_MAX);
}

// "2GiB", "12.5%".
std::string FormatPoolSize(const PoolSize& size);

// What ParseByteSize takes, or a percentage above 0 and at most 100. "0" is both at 0.
bool AbslParseFlag(absl::string_view text, PoolSize* size, std::string* error);
std::string AbslUnparseFlag(const PoolSize& size);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_SIZE_H_
