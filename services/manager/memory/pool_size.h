// PoolSize is how much memory a pool takes, as a size ("2GiB") or as a share of the free memory
// ("80%"). It is an Abseil flag type.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_POOL_SIZE_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_POOL_SIZE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::manager {

struct PoolSize {
  uint64_t bytes = 0;  // of all ranks together, or 0 if `share` is given
  double share = 0;    // of the memory that is free when the pool is created, in (0, 1]
  // Bytes that other pools of the manager have, by device ("cpu", "cuda:0"). They count as free for
  // a share, so that it does not matter which pool is created first.
  std::map<std::string, uint64_t> beside = {};

  bool is_share() const { return bytes == 0; }
  // The bytes of a share on a device that has so many free.
  uint64_t ShareOf(const std::string& device, uint64_t free) const {
    const auto others = beside.find(device);
    const uint64_t all = free + (others == beside.end() ? 0 : others->second);
    return std::min(free, static_cast<uint64_t>(static_cast<double>(all) * share));
  }
};

// How many pages of `page_bytes` fit in `bytes`, at most as many as ids can name.
inline uint64_t PagesIn(uint64_t bytes, uint64_t page_bytes) {
  return std::min<uint64_t>(bytes / page_bytes, UINT32_MAX);
}

// "2GiB", "12.5%".
std::string FormatPoolSize(const PoolSize& size);

// Takes the forms of ParseByteSize, and percentages above 0 and at most 100. "0" sets both to 0.
bool AbslParseFlag(absl::string_view text, PoolSize* size, std::string* error);
std::string AbslUnparseFlag(const PoolSize& size);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_POOL_SIZE_H_
